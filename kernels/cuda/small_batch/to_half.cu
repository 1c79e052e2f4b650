// Activations as f16 or bytes for tensor-core products.
#include "kernels/cuda/matvec/matvec_groups.cuh"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/runtime/ptx.cuh"
#include "kernels/cuda/small_batch/batch.h"

namespace ridge::kernels::cuda {
namespace {

constexpr int kKept = 4; // pieces of 8 columns in registers: rows up to 16384 with 512 threads

__device__ __forceinline__ void load_8(float (&v)[8], const float* from) {
  const float4 a = *reinterpret_cast<const float4*>(from), b = *reinterpret_cast<const float4*>(from + 4);
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}
__device__ __forceinline__ void load_8(float (&v)[8], const float* from, int first, int cols) {
  if (cols % 8 == 0 && first < cols) return load_8(v, from + first);
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = first + i < cols ? from[first + i] : 0;
}

__device__ __forceinline__ void store_bytes(const HalfArgs& args, uint32_t row, uint32_t first, const float (&v)[8],
                                            float factor) {
  const EightIntegers<false, true> bytes(v, 0xfu << (threadIdx.x % kWarp & ~3u));
  auto* const out = reinterpret_cast<uint8_t*>(args.out);
  *reinterpret_cast<uint2*>(out + byte_row_place(args.rows, row, first) + first % kByteColumns) = {bytes.high[0],
                                                                                                   bytes.high[1]};
  if (threadIdx.x % 4 != 0) return;
  uint8_t* const of_64 = out + byte_row_place(args.rows, row & ~63, first);
  const int row_of_64 = row % 64, group = first % kByteColumns / 32;
  *reinterpret_cast<float*>(of_64 + byte_scale_place(row_of_64, group)) = bytes.scale * factor;
  *reinterpret_cast<__half*>(of_64 + byte_sum_place(row_of_64, group)) = __float2half_rn(bytes.scaled_sum * factor);
}

template <HalfLayout kLayout>
__device__ __forceinline__ void store_8(const HalfArgs& args, uint32_t row, uint32_t first, const float (&v)[8],
                                        float factor) {
  const auto pair = [&](int a, int b) { return pack_half2(v[a] * factor, v[b] * factor); };
  const auto store_wide = [&](auto&& place) {
#pragma unroll
    for (int c = 0; c < 6; c += c == 1 ? 3 : 1)
      *reinterpret_cast<uint32_t*>(args.out + place(first + c)) = pair(c, c + 2);
  };
  const uint32_t tile_rows = args.tiled_rows.by, piece = first / 8;
  auto* const pieces = reinterpret_cast<uint4*>(args.out);
  if constexpr (kLayout == HalfLayout::bytes) {
    store_bytes(args, row, first, v, factor);
  } else if constexpr (kLayout == HalfLayout::wide) {
    const uint32_t tile = args.tiled_rows.quotient(static_cast<int>(row));
    store_wide([&](uint32_t column) { return wide_place(args.rows, tile_rows, tile, row, column); });
  } else if constexpr (kLayout == HalfLayout::sorted_wide) {
    for (int i = 0; i < args.used; ++i) {
      const int place = args.places[row * args.used + i], tile = args.tiled_rows.quotient(place);
      store_wide([&](uint32_t column) {
        return sorted_wide_place(tile_rows, args.cols, tile, place - tile * tile_rows, column);
      });
    }
  } else if constexpr (kLayout == HalfLayout::interleaved) {
    pieces[interleaved_place(args.rows, row, piece)] = {pair(0, 2), pair(1, 3), pair(4, 6), pair(5, 7)};
  } else {
    const uint32_t at = kLayout == HalfLayout::tiles ? (piece / 8 * tile_rows + row) * 8 + (piece % 8 ^ row % 8)
                                                     : row * (args.stride / 8) + piece;
    pieces[at] = {pair(0, 1), pair(2, 3), pair(4, 5), pair(6, 7)};
  }
}

// Adds partial sums and bias to v, and stores the result.
__device__ __forceinline__ void finish_sums(float (&v)[8], const HalfArgs& args, int64_t row, int first) {
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

// One block per row; a kernel per layout, since code that runs once is fetched only for that.
template <int kThreads, HalfLayout kLayout>
__global__ void __launch_bounds__(kThreads) to_half_kernel(const __grid_constant__ HalfArgs args, Stamp* stamps) {
  __shared__ float warp_squares[kThreads / kWarp], warp_largest[kThreads / kWarp];
  constexpr int kStep = 8 * kThreads;
  let_successor_start();
  stamp(stamps, kStarts);
  const int row = blockIdx.x, cols = args.cols, mine = 8 * threadIdx.x;
  const float* norm_weight = args.norm_weight;
  const float* x = args.x + int64_t{row} * cols;
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
  if (norm_weight) load_8(weight, norm_weight, mine, cols);
  wait_for_predecessor();
  stamp(stamps, kPredecessorDone);
  for (int i = threadIdx.x; i < args.cleared_per_row; i += kThreads)
    args.cleared[(row * args.cleared_per_row + i) * kRowMaximumPitch] = 0;
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
  for (int first = mine + kKept * kStep; first < cols; first += kStep) {
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
  if constexpr (kLayout == HalfLayout::sorted_wide) {
    for (int i = threadIdx.x; i < args.used; i += kThreads)
      args.exponents[args.places[row * args.used + i]] = static_cast<int8_t>(exponent);
  } else if (threadIdx.x == 0) {
    args.exponents[row] = static_cast<int8_t>(exponent);
  }

#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (mine + k * kStep < cols) store_8<kLayout>(args, row, mine + k * kStep, kept[k], factor);
  const float* again = args.sums ? args.sum_out + int64_t{row} * cols : x; // read or written by this thread before
  for (int first = mine + kKept * kStep; first < cols; first += kStep) {
    float v[8];
    load_8(v, again, first, cols);
    if (norm_weight) {
      load_8(weight, norm_weight, first, cols);
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] *= weight[i];
    }
    store_8<kLayout>(args, row, first, v, factor);
  }
  const float zeros[8] = {};
  for (int first = (cols + 7) / 8 * 8 + mine; first < args.stride; first += kStep)
    store_8<kLayout>(args, row, first, zeros, 0);
  stamp_latest(stamps, kEnds);
}

constexpr int kNarrowThreads = 256, kNarrowColumns = kKept * 8 * kWarp;

// A warp per row, without norm and sums: of many short rows, blocks would mostly wait.
template <HalfLayout kLayout>
__global__ void __launch_bounds__(kNarrowThreads)
    narrow_to_half_kernel(const __grid_constant__ HalfArgs args, Stamp* stamps) {
  constexpr int kStep = 8 * kWarp;
  const DependentWork work(stamps);
  const int row = blockIdx.x * (kNarrowThreads / kWarp) + threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (row >= args.rows) return;
  const float* x = args.x + int64_t{row} * args.cols;
  float v[kKept][8], largest = 0;
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (8 * lane + k * kStep < args.stride) load_8(v[k], x, 8 * lane + k * kStep, args.cols);
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (8 * lane + k * kStep < args.stride)
#pragma unroll
      for (const float element : v[k]) largest = fmaxf(largest, fabsf(element));
  const int exponent = half_exponent(warp_reduce(largest, [](float a, float b) { return fmaxf(a, b); }));
  for (int i = lane; i < args.used; i += kWarp)
    args.exponents[args.places[row * args.used + i]] = static_cast<int8_t>(exponent);
  const float factor = exp2f(static_cast<float>(-exponent));
#pragma unroll
  for (int k = 0; k < kKept; ++k)
    if (8 * lane + k * kStep < args.stride) store_8<kLayout>(args, row, 8 * lane + k * kStep, v[k], factor);
}

// A row has a warp or a block, which must wait for all of its warps.
template <int kThreads>
constexpr int kNormThreads = kThreads == kWarp ? 256 : kThreads;

template <int kThreads, int kPieces>
__global__ void __launch_bounds__(kNormThreads<kThreads>)
    layer_norm_to_half_kernel(const __grid_constant__ HalfArgs args) {
  __shared__ float scratch[kThreads / kWarp];
  constexpr int kStep = 8 * kThreads, kRows = kNormThreads<kThreads> / kThreads;
  let_successor_start();
  const int thread = threadIdx.x % kThreads, row = blockIdx.x * kRows + threadIdx.x / kThreads, cols = args.cols,
            mine = 8 * thread;
  if (row >= args.rows) return;
  const float* x = args.x + int64_t{row} * cols;
  const auto over_row = [&](float value, auto&& both) {
    value = warp_reduce(value, both);
    if constexpr (kThreads > kWarp) {
      if (thread % kWarp == 0) scratch[thread / kWarp] = value;
      __syncthreads();
      value = scratch[0];
#pragma unroll
      for (int w = 1; w < kThreads / kWarp; ++w) value = both(value, scratch[w]);
      __syncthreads();
    }
    return value;
  };
  const auto sum = [](float a, float b) { return a + b; };
  wait_for_predecessor();
  float v[kPieces][8] = {}, total = 0, squares = 0, largest = 0;
  const auto for_each = [&](auto&& body) {
#pragma unroll
    for (int k = 0; k < kPieces; ++k)
      if (mine + k * kStep < cols)
#pragma unroll
        for (int i = 0; i < 8; ++i) body(v[k][i], mine + k * kStep + i);
  };
#pragma unroll
  for (int k = 0; k < kPieces; ++k)
    if (mine + k * kStep < cols) load_8(v[k], x, mine + k * kStep, cols);
  for_each([&](float element, int) { total += element; });
  const float mean = over_row(total, sum) / static_cast<float>(cols);
  for_each([&](float& element, int column) {
    element = column < cols ? element - mean : 0;
    squares += element * element;
  });
  const float inverse = rsqrtf(over_row(squares, sum) / static_cast<float>(cols) + args.epsilon);
#pragma unroll
  for (int k = 0; k < kPieces; ++k)
    if (mine + k * kStep < cols) {
      float weight[8], bias[8] = {};
      load_8(weight, args.norm_weight, mine + k * kStep, cols);
      if (args.norm_bias) load_8(bias, args.norm_bias, mine + k * kStep, cols);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        v[k][i] = v[k][i] * inverse * weight[i] + bias[i];
        largest = fmaxf(largest, fabsf(v[k][i]));
      }
    }
  const int exponent = half_exponent(over_row(largest, [](float a, float b) { return fmaxf(a, b); }));
  if (thread == 0) args.exponents[row] = static_cast<int8_t>(exponent);
  const float factor = exp2f(static_cast<float>(-exponent));
#pragma unroll
  for (int k = 0; k < kPieces; ++k)
    if (mine + k * kStep < args.stride) store_8<HalfLayout::tiles>(args, row, mine + k * kStep, v[k], factor);
}

template <HalfLayout kLayout>
void launch_for(const Launch& launch, const HalfArgs& args) {
  constexpr int kManyRows = 256, kFewColumns = 4096;
  if (args.centers) {
    constexpr int kOfWarp = 6, kThreads = kNormThreads<kWarp>, kRows = kThreads / kWarp;
    if (args.stride <= kOfWarp * 8 * kWarp)
      return launch(layer_norm_to_half_kernel<kWarp, kOfWarp>, (args.rows + kRows - 1) / kRows, kThreads, 0, args);
    if (args.stride <= kFewColumns) return launch(layer_norm_to_half_kernel<128, kKept>, args.rows, 128, 0, args);
    return launch(layer_norm_to_half_kernel<512, kKept>, args.rows, 512, 0, args);
  }
  if constexpr (kLayout == HalfLayout::sorted_wide)
    if (args.stride <= kNarrowColumns && args.rows >= kManyRows && !args.norm_weight && !args.sums && !args.cleared) {
      constexpr int kRows = kNarrowThreads / kWarp;
      return launch(narrow_to_half_kernel<kLayout>, (args.rows + kRows - 1) / kRows, kNarrowThreads, 0, args,
                    launch.stamps());
    }
  if (args.stride <= 1024 || (args.rows >= kManyRows && args.stride <= kFewColumns))
    return launch(to_half_kernel<128, kLayout>, args.rows, 128, 0, args, launch.stamps());
  launch(to_half_kernel<512, kLayout>, args.rows, 512, 0, args, launch.stamps());
}

} // namespace

void launch_to_half(const Launch& launch, const HalfArgs& args) {
  switch (args.layout) {
  case HalfLayout::rows: return launch_for<HalfLayout::rows>(launch, args);
  case HalfLayout::interleaved: return launch_for<HalfLayout::interleaved>(launch, args);
  case HalfLayout::tiles: return launch_for<HalfLayout::tiles>(launch, args);
  case HalfLayout::wide: return launch_for<HalfLayout::wide>(launch, args);
  case HalfLayout::sorted_wide: return launch_for<HalfLayout::sorted_wide>(launch, args);
  case HalfLayout::bytes: return launch_for<HalfLayout::bytes>(launch, args);
  }
}

} // namespace ridge::kernels::cuda
