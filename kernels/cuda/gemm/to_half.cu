// Activations as f16, the way into every tensor-core product.
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/ptx.cuh"
#include "kernels/cuda/small_batch/batch.h"

namespace ridge::kernels::cuda {
namespace {

constexpr int kKept = 4; // pieces of 8 columns per thread that stay in registers: with 512 threads rows up to 16384

// Eight columns.
__device__ __forceinline__ void load_8(float (&v)[8], const float* from) {
  const float4 a = *reinterpret_cast<const float4*>(from), b = *reinterpret_cast<const float4*>(from + 4);
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}
// Zeros behind the last one.
__device__ __forceinline__ void load_8(float (&v)[8], const float* from, int64_t first, int64_t cols) {
  if (cols % 8 == 0 && first < cols) return load_8(v, from + first);
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = first + i < cols ? from[first + i] : 0;
}

// v += the sums over ranges of columns, and the bias; the result goes to where the product would have put it.
__device__ __forceinline__ void finish_sums(float (&v)[8], const HalfArgs& args, int64_t row, int64_t first) {
  const auto add = [&](const float* from) {
    float term[8];
    load_8(term, from);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] += term[i];
  };
  if (args.bias) add(args.bias + first);
  const float* sums = args.sums + row * args.row_floats + first;
#pragma unroll 4
  for (int r = 0; r < args.ranges; ++r) add(sums + r * args.range_floats);
  auto* to = reinterpret_cast<float4*>(args.sum_out + row * args.cols + first);
  to[0] = {v[0], v[1], v[2], v[3]}, to[1] = {v[4], v[5], v[6], v[7]};
}

// One block per row.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) to_half_kernel(const __grid_constant__ HalfArgs args, Stamp* stamps) {
  __shared__ float warp_squares[kThreads / kWarp], warp_largest[kThreads / kWarp];
  constexpr int kStep = 8 * kThreads;
  let_successor_start();
  stamp(stamps, kStarts);
  const int64_t row = blockIdx.x, cols = args.cols, mine = 8 * threadIdx.x;
  const float* norm_weight = args.norm_weight;
  const float* x = args.x + row * cols;
  float squares = 0, largest = 0;
  const auto look_at = [&](float(&v)[8], const float(&weight)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      squares += v[i] * v[i];
      if (norm_weight) v[i] *= weight[i];
      largest = fmaxf(largest, fabsf(v[i]));
    }
  };
  float kept[kKept][8], weight[8] = {};
  if (norm_weight) load_8(weight, norm_weight, mine, cols); // constant
  wait_for_predecessor();
  stamp(stamps, kMayGoOn);
  for (int i = threadIdx.x; i < args.cleared_per_row; i += kThreads)
    args.cleared[(row * args.cleared_per_row + i) * kLargestPitch] = 0;
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (mine + k * kStep < cols) load_8(kept[k], x, mine + k * kStep, cols);
  if (args.sums)
#pragma unroll
    for (int k = 0; k < kKept; ++k)
      if (mine + k * kStep < cols) finish_sums(kept[k], args, row, mine + k * kStep);
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (mine + k * kStep < cols) {
      if (k > 0 && norm_weight) load_8(weight, norm_weight, mine + k * kStep, cols);
      look_at(kept[k], weight);
    }
  for (int64_t first = mine + kKept * kStep; first < cols; first += kStep) {
    float v[8];
    load_8(v, x, first, cols);
    if (args.sums) finish_sums(v, args, row, first);
    if (norm_weight) load_8(weight, norm_weight, first, cols);
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
  float factor = norm_weight ? rsqrtf(squares / static_cast<float>(cols) + args.epsilon) : 1;
  const int exponent = half_exponent(largest * factor);
  factor *= exp2f(static_cast<float>(-exponent));
  const bool sorted = args.layout == HalfLayout::sorted_wide;
  if (!sorted && threadIdx.x == 0) args.exponents[row] = static_cast<int8_t>(exponent);
  for (int i = threadIdx.x; sorted && i < args.used; i += kThreads)
    args.exponents[args.places[row * args.used + i]] = static_cast<int8_t>(exponent);

  const auto store = [&](int64_t first, const float(&v)[8]) {
    const int64_t piece = first / 8;
    const auto pair = [&](int a, int b) { return pack_half2(v[a] * factor, v[b] * factor); };
    const auto store_wide = [&](auto&& place) {
#pragma unroll
      for (int c = 0; c < 6; c += c == 1 ? 3 : 1)
        *reinterpret_cast<uint32_t*>(args.out + place(first + c)) = pair(c, c + 2);
    };
    if (args.layout == HalfLayout::wide)
      return store_wide([&](int64_t column) { return wide_place(args.rows, row, column); });
    if (sorted) {
      for (int i = 0; i < args.used; ++i) {
        const int place = args.places[row * args.used + i];
        store_wide([&](int64_t column) { return sorted_wide_place(args.tiled_rows, cols, place, column); });
      }
      return;
    }
    const bool interleaved = args.layout == HalfLayout::interleaved;
    const int64_t at = args.layout == HalfLayout::tiles
                           ? (piece / 8 * args.tiled_rows + row) * 8 + (piece % 8 ^ row % 8)
                       : interleaved ? interleaved_place(args.rows, row, piece)
                                     : row * (args.stride / 8) + piece;
    reinterpret_cast<uint4*>(args.out)[at] = interleaved ? uint4{pair(0, 2), pair(1, 3), pair(4, 6), pair(5, 7)}
                                                         : uint4{pair(0, 1), pair(2, 3), pair(4, 5), pair(6, 7)};
  };
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (mine + k * kStep < cols) store(mine + k * kStep, kept[k]);
  const float* again = args.sums ? args.sum_out + row * cols : x; // what this thread read or wrote before
  for (int64_t first = mine + kKept * kStep; first < cols; first += kStep) {
    float v[8];
    load_8(v, again, first, cols);
    if (norm_weight) {
      load_8(weight, norm_weight, first, cols);
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] *= weight[i];
    }
    store(first, v);
  }
  const float zeros[8] = {};
  for (int64_t first = (cols + 7) / 8 * 8 + mine; first < args.stride; first += kStep) store(first, zeros);
  stamp_latest(stamps, kEnds);
}

} // namespace

void launch_to_half(const Launch& launch, const HalfArgs& args) {
  const auto rows = static_cast<unsigned>(args.rows);
  if (args.stride <= 1024) return launch(to_half_kernel<128>, rows, 128, 0, args, launch.stamps());
  launch(to_half_kernel<512>, rows, 512, 0, args, launch.stamps());
}

} // namespace ridge::kernels::cuda
