// out = x Wᵀ by mma, for prompts and large batches. Threads decode spans of packed weights to f16 in shared memory
// while the tensor cores multiply the previous tile.
#pragma once

#include "kernels/cuda/layout/span_weights.cuh"
#include "kernels/cuda/products/epilogue.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {

// A block computes [kM tokens x kN rows] in steps of kK columns, a warp [kWarpM x kWarpN]. Activations are fetched
// kXBuffers - 1 steps ahead.
template <int kM_, int kN_, int kK_, int kWarpM_, int kWarpN_, int kXBuffers_>
struct GemmShape {
  static constexpr int kM = kM_, kN = kN_, kK = kK_, kWarpM = kWarpM_, kWarpN = kWarpN_, kXBuffers = kXBuffers_;
  static constexpr int kThreads = kN * kK / 32; // one span each per step
  static constexpr int kWarpsM = kM / kWarpM, kWarpsN = kN / kWarpN;
  static_assert(kThreads == kWarpsM * kWarpsN * kWarp);
  static constexpr int kPitch = kK + 8; // an odd number of 16-byte pieces avoids bank conflicts
  static constexpr int kXHalves = kXBuffers * kM * kPitch, kWHalves = kN * kPitch;
  static constexpr int kSharedBytes = (kXHalves + 2 * kWHalves) * 2;
};
using LargeShape = GemmShape<256, 128, 64, 64, 64, 3>;
using PromptShape = GemmShape<128, 64, 64, 64, 32, 3>;
using SmallShape = GemmShape<128, 128, 32, 64, 64, 2>; // two blocks in 100 KB, one in 64 KB
static_assert(SmallShape::kSharedBytes <= kGemmSharedBytes);

template <typename Format, typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, (Shape::kWarpM * Shape::kWarpN > 2048 ? 256 : 512) / Shape::kThreads)
    gemm_kernel(const __grid_constant__ GemmArgs args) {
  using U = TileLayout<Format>;
  constexpr int kThreadsPerRow = Shape::kK / 32;
  constexpr int kTilesM = Shape::kWarpM / 16, kTilesN = Shape::kWarpN / 8;
  extern __shared__ uint4 shared[];
  auto* tiles = reinterpret_cast<__half*>(shared); // x [kXBuffers][kM][kPitch], then W [2][kN][kPitch]
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int warp_m = warp % Shape::kWarpsM, warp_n = warp / Shape::kWarpsM;
  int segment_index = 0, tile = blockIdx.y;
  for (int tiles; tile >= (tiles = (args.segment[segment_index].rows + Shape::kN - 1) / Shape::kN); ++segment_index)
    tile -= tiles;
  const GemmSegment& segment = args.segment[segment_index];
  const int first_token = blockIdx.x * Shape::kM, first_row = tile * Shape::kN;
  const int groups = static_cast<int>(U::groups_of(args.cols)), steps = (args.cols + Shape::kK - 1) / Shape::kK;
  let_successor_start();

  const int my_row = threadIdx.x / kThreadsPerRow, my_column = threadIdx.x % kThreadsPerRow * 32;
  const int weight_row = min(first_row + my_row, segment.rows - 1);
  using Fetched = SpanWeights<Format>;
  const auto fetch_weights = [&](Fetched& to, int step) {
    const int column = step * Shape::kK + my_column, warp_tile = column / U::kWeights;
    to.fetch(segment.weights + U::offset(weight_row, warp_tile, args.row_bytes),
             min(kTileGroups, groups - warp_tile * kTileGroups), column % U::kWeights / 32);
  };
  const auto store_weights = [&](const Fetched& from, int step) {
    uint32_t pairs[16];
    from.halves(pairs, (step * Shape::kK + my_column) % U::kWeights / 32);
    auto* to = reinterpret_cast<uint4*>(tiles + Shape::kXHalves + step % 2 * Shape::kWHalves + my_row * Shape::kPitch +
                                        my_column);
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = {pairs[4 * i], pairs[4 * i + 1], pairs[4 * i + 2], pairs[4 * i + 3]};
  };
  const auto fetch_x = [&](int step) {
    constexpr int kPieces = Shape::kK / 8;
    __half* to = tiles + step % Shape::kXBuffers * Shape::kM * Shape::kPitch;
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

  // Weights are fetched two steps ahead and decoded one ahead.
  Fetched even, odd;
  fetch_weights(even, 0);
  fetch_weights(odd, 1);
  wait_for_predecessor();
  constexpr int kAhead = Shape::kXBuffers - 1;
#pragma unroll
  for (int step = 0; step < kAhead; ++step) {
    if (step < steps) fetch_x(step);
    copy_async_commit();
  }
  store_weights(even, 0);
  copy_async_wait<kAhead - 1>();
  __syncthreads();
  const auto make_step = [&](int step, Fetched& next, Fetched& after) {
    if (step + kAhead < steps) fetch_x(step + kAhead);
    copy_async_commit();
    fetch_weights(after, step + 2);
    const __half* x_tile = tiles + step % Shape::kXBuffers * Shape::kM * Shape::kPitch;
    const __half* w_tile = tiles + Shape::kXHalves + step % 2 * Shape::kWHalves;
#pragma unroll
    for (int column = 0; column < Shape::kK; column += 16) {
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
    copy_async_wait<kAhead - 1>();
    __syncthreads();
  };
  for (int step = 0; step < steps; step += 2) {
    make_step(step, odd, even);
    if (step + 1 < steps) make_step(step + 1, even, odd);
  }

  const auto write = [&](int token, int row, float value) {
    if (token >= args.tokens) return;
    const float scale = exp2f(static_cast<float>(args.exponent[token] - kWeightExponent));
    RowEpilogue(args, segment, false, row).write(token, value * scale);
  };
#pragma unroll
  for (int m = 0; m < kTilesM; ++m)
#pragma unroll
    for (int n = 0; n < kTilesN; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        write(first_token + warp_m * Shape::kWarpM + 16 * m + lane / 4 + i / 2 * 8,
              first_row + warp_n * Shape::kWarpN + 8 * n + lane % 4 * 2 + i % 2, sum[m][n][i]);
}

} // namespace ridge::kernels::cuda
