// out = x Wᵀ on tensor cores, for prompts and for batches that are too large for the matvec kernel. The weights stay
// packed in device memory: each thread decodes one item of a tile into f16 in shared memory while the tensor cores work
// on the tile before.
#pragma once

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/ptx.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {

inline constexpr int kXBuffers = 3;

// A block makes a [kM tokens x kN rows] tile in steps of kK columns; a warp makes [kWarpM x kWarpN] of it, and where
// that leaves warps over, they share a step's columns.
template <int kM_, int kN_, int kK_, int kWarpM_, int kWarpN_>
struct GemmShape {
  static constexpr int kM = kM_, kN = kN_, kK = kK_, kWarpM = kWarpM_, kWarpN = kWarpN_;
  static constexpr int kThreads = kN * kK / 32; // each decodes one item of 32 weights per step
  static constexpr int kWarpsM = kM / kWarpM, kWarpsN = kN / kWarpN, kWarpsK = kThreads / kWarp / kWarpsM / kWarpsN;
  static constexpr int kPitch =
      kK + 8; // halves per tile row: an odd number of 16-byte pieces, so that no banks collide
  static constexpr int kXHalves = kXBuffers * kM * kPitch, kWHalves = kN * kPitch; // three tiles of x, two of W
  static constexpr int kSharedBytes = (kXHalves + 2 * kWHalves) * 2;
  static_assert(kWarpsK * kM * kN * 4 <= kSharedBytes || kWarpsK == 1, "the partial sums fit where the tiles were");
};
using LargeShape = GemmShape<256, 128, 64, 64, 64>;
using PromptShape = GemmShape<128, 64, 64, 64, 32>;
using BatchShape = GemmShape<32, 16, 256, 32, 16>;
static_assert(PromptShape::kSharedBytes <= kGemmSharedBytes && BatchShape::kSharedBytes <= kGemmSharedBytes);

// Weights are multiplied by this on the way to f16, so that small ones keep their precision.
inline constexpr int kWeightExponent = 6;

// An item as 32 halves. A byte behind 0x64 is the half 1024 + byte, so that two codes become halves in one
// permute; the subtraction is exact, the scale rounds.
template <typename L>
__device__ __forceinline__ void store_halves(__half* to, const Item& item) {
  constexpr float kFactor = 1 << kWeightExponent;
  const __half2 zero = __float2half2_rn(1024 + 128 + L::kBias);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const __half2 scale = __float2half2_rn(item.scale[half] * kFactor),
                  offset = __float2half2_rn(item.offset[half] * kFactor);
    uint32_t out[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const uint32_t codes = item.word[4 * half + k / 2] ^ 0x80808080;
      const uint32_t pair = __byte_perm(codes, 0x64646464, k % 2 ? 0x4342 : 0x4140);
      const __half2 centred = __hsub2(*reinterpret_cast<const __half2*>(&pair), zero);
      const __half2 weights = L::kHasOffset ? __hfma2(centred, scale, offset) : __hmul2(centred, scale);
      out[k] = *reinterpret_cast<const uint32_t*>(&weights);
    }
    reinterpret_cast<uint4*>(to)[2 * half] = {out[0], out[1], out[2], out[3]};
    reinterpret_cast<uint4*>(to)[2 * half + 1] = {out[4], out[5], out[6], out[7]};
  }
}

// The bits of 32 weights of one row, as they came from memory.
template <typename Format>
struct FetchedWeights {
  typename Layout<Format>::Raw raw;
  bool real[1]; // false: past the row's end
};
template <quant::FloatFormat Format>
struct FetchedWeights<Format> {
  uint4 raw[2 * sizeof(Format)]; // two pieces per item of 32 bytes
  bool real[sizeof(Format)];
};

template <typename Format, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kWarpM* Shape::kWarpN > 2048 ? 1 : 512 / Shape::kThreads)
    gemm_kernel(const __grid_constant__ GemmArgs args) {
  using L = Layout<Format>;
  using U = Units<Format>;
  constexpr int kPerThread = 32 / L::kItemWeights; // items
  constexpr int kThreadsPerRow = Shape::kK / 32;
  constexpr int kTilesM = Shape::kWarpM / 16, kTilesN = Shape::kWarpN / 8;
  extern __shared__ uint4 shared[];
  auto* tiles = reinterpret_cast<__half*>(shared); // x [kXBuffers][kM][kPitch], then W [2][kN][kPitch]
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int warp_m = warp % Shape::kWarpsM, warp_n = warp / Shape::kWarpsM % Shape::kWarpsN;
  const int warp_k = warp / (Shape::kWarpsM * Shape::kWarpsN);
  int segment_index = 0, tile = blockIdx.y; // tiles of all segments in sequence
  for (int tiles; tile >= (tiles = (args.segment[segment_index].rows + Shape::kN - 1) / Shape::kN); ++segment_index)
    tile -= tiles;
  const GemmSegment& segment = args.segment[segment_index];
  const int first_token = blockIdx.x * Shape::kM, first_row = tile * Shape::kN;
  const int items = static_cast<int>(U::items_of(args.cols)), steps = (args.cols + Shape::kK - 1) / Shape::kK;
  let_successor_start();

  // This thread's part of a step's weights: 32 of row my_row.
  const int my_row = threadIdx.x / kThreadsPerRow, my_column = threadIdx.x % kThreadsPerRow * 32;
  const uint8_t* weights = segment.weights + min(first_row + my_row, segment.rows - 1) * args.row_bytes;
  constexpr bool kPacked = !quant::FloatFormat<Format>;
  using Fetched = FetchedWeights<Format>;
  const auto fetch_weights = [&](Fetched& to, int step) {
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const int item = (step * Shape::kK + my_column) / L::kItemWeights + k, unit = item / kUnitItems;
      to.real[k] = item < items;
      if (!to.real[k]) continue;
      const uint8_t* from = weights + int64_t{unit} * U::kBytes;
      const int unit_items = min(kUnitItems, items - unit * kUnitItems);
      if constexpr (kPacked) {
        L::fetch(to.raw, from, unit_items, item % kUnitItems);
      } else {
#pragma unroll
        for (int piece = 0; piece < 2; ++piece)
          to.raw[2 * k + piece] =
              *reinterpret_cast<const uint4*>(from + piece * 16 * unit_items + 16 * (item % kUnitItems));
      }
    }
  };
  const auto store_weights = [&](const Fetched& from, int step) {
    __half* to = tiles + Shape::kXHalves + step % 2 * Shape::kWHalves + my_row * Shape::kPitch + my_column;
    if constexpr (kPacked) {
      Item item{};
      if (from.real[0]) L::unpack(item, from.raw, (step * Shape::kK + my_column) / L::kItemWeights % kUnitItems);
      store_halves<L>(to, item);
    } else {
      constexpr float kFactor = 1 << kWeightExponent;
#pragma unroll
      for (int k = 0; k < kPerThread; ++k) {
        float v[L::kItemWeights];
        L::unpack(v, from.raw[2 * k], from.raw[2 * k + 1]);
#pragma unroll
        for (int i = 0; i < L::kItemWeights; i += 8) {
          uint4 halves = {
              pack_half2(v[i] * kFactor, v[i + 1] * kFactor), pack_half2(v[i + 2] * kFactor, v[i + 3] * kFactor),
              pack_half2(v[i + 4] * kFactor, v[i + 5] * kFactor), pack_half2(v[i + 6] * kFactor, v[i + 7] * kFactor)};
          if (!from.real[k]) halves = {0, 0, 0, 0};
          *reinterpret_cast<uint4*>(to + k * L::kItemWeights + i) = halves;
        }
      }
    }
  };
  const auto fetch_x = [&](int step) {
    constexpr int kPieces = Shape::kK / 8; // of 16 bytes per row
    __half* to = tiles + step % kXBuffers * Shape::kM * Shape::kPitch;
    const uint16_t* from = args.x + first_token * args.x_stride + step * Shape::kK;
#pragma unroll
    for (int i = threadIdx.x; i < Shape::kM * kPieces; i += Shape::kThreads)
      copy_async_16(to + i / kPieces * Shape::kPitch + i % kPieces * 8,
                    from + i / kPieces * args.x_stride + i % kPieces * 8);
  };

  float sum[kTilesM][kTilesN][4];
#pragma unroll
  for (int m = 0; m < kTilesM; ++m)
    for (int n = 0; n < kTilesN; ++n)
      for (float& v : sum[m][n]) v = 0;

  // Weights are fetched into registers two steps ahead and decoded one step ahead; activations are fetched two steps
  // ahead.
  Fetched even, odd;
  fetch_weights(even, 0);
  fetch_weights(odd, 1);
  wait_for_predecessor();
  fetch_x(0);
  copy_async_commit();
  if (steps > 1) fetch_x(1);
  copy_async_commit();
  store_weights(even, 0);
  copy_async_wait<1>();
  __syncthreads();
  const auto make_step = [&](int step, Fetched& next, Fetched& after) {
    if (step + 2 < steps) fetch_x(step + 2);
    copy_async_commit();
    fetch_weights(after, step + 2);
    const __half* x_tile = tiles + step % kXBuffers * Shape::kM * Shape::kPitch;
    const __half* w_tile = tiles + Shape::kXHalves + step % 2 * Shape::kWHalves;
#pragma unroll
    for (int k = 0; k < Shape::kK / Shape::kWarpsK; k += 16) {
      const int column = warp_k * (Shape::kK / Shape::kWarpsK) + k;
      uint32_t a[kTilesM][4], b[kTilesN / 2][4];
#pragma unroll
      for (int m = 0; m < kTilesM; ++m)
        load_matrix_x4(a[m],
                       x_tile + (warp_m * Shape::kWarpM + 16 * m + lane % 16) * Shape::kPitch + column + lane / 16 * 8);
#pragma unroll
      for (int n = 0; n < kTilesN / 2; ++n)
        load_matrix_x4(b[n], w_tile + (warp_n * Shape::kWarpN + 16 * n + lane / 16 * 8 + lane % 8) * Shape::kPitch +
                                 column + lane / 8 % 2 * 8);
#pragma unroll
      for (int m = 0; m < kTilesM; ++m)
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) mma_16x8x16(sum[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
    store_weights(next, step + 1);
    copy_async_wait<1>();
    __syncthreads();
  };
  for (int step = 0; step < steps; step += 2) {
    make_step(step, odd, even);
    if (step + 1 < steps) make_step(step + 1, even, odd);
  }

  const auto write = [&](int token, int row, float value) {
    if (token >= args.tokens || row >= segment.rows) return;
    value *= exp2f(static_cast<float>(args.exponent[token] - kWeightExponent));
    if (segment.bias) value += segment.bias[row];
    const int64_t at = int64_t{token} * segment.rows + row;
    if (args.residual) value += args.residual[at];
    segment.out[at] = value;
  };
  if constexpr (Shape::kWarpsK == 1) {
#pragma unroll
    for (int m = 0; m < kTilesM; ++m)
#pragma unroll
      for (int n = 0; n < kTilesN; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          write(first_token + warp_m * Shape::kWarpM + 16 * m + lane / 4 + i / 2 * 8,
                first_row + warp_n * Shape::kWarpN + 8 * n + lane % 4 * 2 + i % 2, sum[m][n][i]);
  } else { // the warps' partial sums go through shared memory, in the order of the warps
    auto* partial = reinterpret_cast<float*>(shared);
#pragma unroll
    for (int m = 0; m < kTilesM; ++m)
#pragma unroll
      for (int n = 0; n < kTilesN; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          partial[(warp_k * Shape::kM + warp_m * Shape::kWarpM + 16 * m + lane / 4 + i / 2 * 8) * Shape::kN +
                  warp_n * Shape::kWarpN + 8 * n + lane % 4 * 2 + i % 2] = sum[m][n][i];
    __syncthreads();
    for (int i = threadIdx.x; i < Shape::kM * Shape::kN; i += Shape::kThreads) {
      float total = 0;
      for (int k = 0; k < Shape::kWarpsK; ++k) total += partial[k * Shape::kM * Shape::kN + i];
      write(first_token + i / Shape::kN, first_row + i % Shape::kN, total);
    }
  }
}

} // namespace ridge::kernels::cuda
