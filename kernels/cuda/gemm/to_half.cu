// Activations as f16, the way into every tensor-core product.
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 512, kKept = 4; // pieces of 8 columns per thread that stay in registers: rows up to 16384

// One block per row; `tiled_rows`: of HalfLayout::tiles. The row is scaled by a power of two such that its largest
// value lies in [512, 1024).
__global__ void __launch_bounds__(kThreads)
    to_half_kernel(const float* x, const float* norm_weight, float epsilon, int64_t cols, uint4* out, int64_t stride,
                   HalfLayout layout, int64_t tiled_rows, int8_t* exponents, Stamp* stamps) {
  __shared__ float warp_squares[kThreads / kWarp], warp_largest[kThreads / kWarp];
  let_successor_start();
  stamp(stamps, kStarts);
  const int64_t row = blockIdx.x;
  x += row * cols;
  // Eight columns, and what they are multiplied by; zeros behind the last one.
  const auto load = [&](float(&v)[8], const float* from, int64_t first) {
    if (cols % 8 == 0 && first < cols) {
      const float4 a = *reinterpret_cast<const float4*>(from + first),
                   b = *reinterpret_cast<const float4*>(from + first + 4);
      v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] = first + i < cols ? from[first + i] : 0;
    }
  };
  float squares = 0, largest = 0;
  const auto look_at = [&](float(&v)[8], const float(&weight)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      squares += v[i] * v[i];
      if (norm_weight) v[i] *= weight[i];
      largest = fmaxf(largest, fabsf(v[i]));
    }
  };
  constexpr int kStep = 8 * kThreads;
  const int64_t mine = 8 * threadIdx.x;
  float kept[kKept][8], weight[8] = {};
  if (norm_weight) load(weight, norm_weight, mine); // constant
  wait_for_predecessor();
  stamp(stamps, kMayGoOn);
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (mine + k * kStep < cols) load(kept[k], x, mine + k * kStep);
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (mine + k * kStep < cols) {
      if (k > 0 && norm_weight) load(weight, norm_weight, mine + k * kStep);
      look_at(kept[k], weight);
    }
  for (int64_t first = mine + kKept * kStep; first < cols; first += kStep) {
    float v[8];
    load(v, x, first);
    if (norm_weight) load(weight, norm_weight, first);
    look_at(v, weight);
  }
  squares = warp_sum(squares);
  largest = warp_reduce(largest, [](float a, float b) { return fmaxf(a, b); });
  if (threadIdx.x % kWarp == 0) {
    warp_squares[threadIdx.x / kWarp] = squares;
    warp_largest[threadIdx.x / kWarp] = largest;
  }
  __syncthreads();
  squares = 0;
#pragma unroll
  for (int w = 0; w < kThreads / kWarp; ++w) {
    squares += warp_squares[w];
    largest = fmaxf(largest, warp_largest[w]);
  }
  float factor = norm_weight ? rsqrtf(squares / static_cast<float>(cols) + epsilon) : 1;
  largest *= factor;
  const int exponent = largest > 0 ? min(max(ilogbf(largest) - 9, -120), 120) : 0;
  factor *= exp2f(static_cast<float>(-exponent));
  if (threadIdx.x == 0) exponents[row] = static_cast<int8_t>(exponent);

  const auto store = [&](int64_t first, const float(&v)[8]) {
    const int64_t piece = first / 8;
    const int64_t at = layout == HalfLayout::tiles         ? (piece / 8 * tiled_rows + row) * 8 + (piece % 8 ^ row % 8)
                       : layout == HalfLayout::interleaved ? row * (stride / 8) + interleaved_place(piece)
                                                           : row * (stride / 8) + piece;
    const auto pair = [&](int a, int b) { return pack_half2(v[a] * factor, v[b] * factor); };
    out[at] = layout == HalfLayout::interleaved ? uint4{pair(0, 2), pair(1, 3), pair(4, 6), pair(5, 7)}
                                                : uint4{pair(0, 1), pair(2, 3), pair(4, 5), pair(6, 7)};
  };
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (mine + k * kStep < cols) store(mine + k * kStep, kept[k]);
  for (int64_t first = mine + kKept * kStep; first < cols; first += kStep) {
    float v[8];
    load(v, x, first);
    if (norm_weight) {
      load(weight, norm_weight, first);
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] *= weight[i];
    }
    store(first, v);
  }
  const float zeros[8] = {};
  for (int64_t first = (cols + 7) / 8 * 8 + mine; first < stride; first += kStep) store(first, zeros);
  stamp_latest(stamps, kEnds);
}

} // namespace

void launch_to_half(const Launch& launch, const float* x, const float* norm_weight, float epsilon, int64_t tokens,
                    int64_t cols, uint16_t* out, int64_t stride, HalfLayout layout, int64_t tiled_rows,
                    int8_t* exponents) {
  launch(to_half_kernel, static_cast<unsigned>(tokens), kThreads, 0, x, norm_weight, epsilon, cols,
         reinterpret_cast<uint4*>(out), stride, layout, tiled_rows, exponents, launch.stamps());
}

} // namespace ridge::kernels::cuda
