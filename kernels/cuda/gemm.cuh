// out = x Wᵀ on tensor cores, for prompts and for batches that are too large for the matvec kernel. The weights stay
// packed in device memory: each thread decodes one item of a tile into f16 in shared memory while the tensor cores work on
// the tile before.
#pragma once

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/ptx.cuh"

namespace ridge::kernels::cuda {

inline constexpr int kGemmThreads = 256, kGemmWarps = kGemmThreads / kWarp;

// A block makes a [kM tokens x kN rows] tile in steps of kK columns; a warp makes [kWarpM x kWarpN] of it, and where that
// leaves warps over, they share a step's columns.
template <int kM_, int kN_, int kK_, int kWarpM_, int kWarpN_>
struct GemmShape {
  static constexpr int kM = kM_, kN = kN_, kK = kK_, kWarpM = kWarpM_, kWarpN = kWarpN_;
  static constexpr int kWarpsM = kM / kWarpM, kWarpsN = kN / kWarpN, kWarpsK = kGemmWarps / kWarpsM / kWarpsN;
  static constexpr int kPitch = kK + 8; // halves per tile row: an odd number of 16-byte pieces, so that no banks collide
  static constexpr int kTileHalves = (kM + kN) * kPitch;
  static constexpr int kSharedBytes = 2 * kTileHalves * 2;
  static_assert(kN * kK / 32 == kGemmThreads, "one item of 32 weights per thread and step");
  static_assert(kWarpsK * kM * kN * 4 <= kSharedBytes || kWarpsK == 1, "the partial sums fit where the tiles were");
};
using PromptShape = GemmShape<128, 128, 64, 64, 32>;
using BatchShape = GemmShape<32, 32, 256, 32, 32>;

template <typename Format, typename Shape>
__global__ void __launch_bounds__(kGemmThreads, 2) gemm_kernel(const __grid_constant__ GemmArgs args) {
  using L = Layout<Format>;
  using U = Units<Format>;
  constexpr int kPerThread = 32 / L::kItemWeights; // items
  constexpr int kThreadsPerRow = Shape::kK / 32;
  constexpr int kTilesM = Shape::kWarpM / 16, kTilesN = Shape::kWarpN / 8;
  extern __shared__ uint4 shared[];
  auto* tiles = reinterpret_cast<__half*>(shared); // two of: x [kM][kPitch], W [kN][kPitch]
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int warp_m = warp % Shape::kWarpsM, warp_n = warp / Shape::kWarpsM % Shape::kWarpsN;
  const int warp_k = warp / (Shape::kWarpsM * Shape::kWarpsN);
  const int first_token = blockIdx.x * Shape::kM, first_row = blockIdx.y * Shape::kN;
  const int items = static_cast<int>(U::items_of(args.cols)), steps = (args.cols + Shape::kK - 1) / Shape::kK;
  let_successor_start();

  // This thread's part of a step's weights: 32 of row my_row.
  const int my_row = threadIdx.x / kThreadsPerRow, my_column = threadIdx.x % kThreadsPerRow * 32;
  const uint8_t* weights = args.weights + min(first_row + my_row, args.rows - 1) * args.row_bytes;
  float w[32];
  const auto load_weights_of = [&](int step) {
#pragma unroll
    for (int k = 0; k < kPerThread; ++k) {
      const int item = (step * Shape::kK + my_column) / L::kItemWeights + k, unit = item / kUnitItems;
      auto& part = reinterpret_cast<float(&)[L::kItemWeights]>(w[k * L::kItemWeights]);
      if (item < items) {
        load_weights<Format>(part, weights + int64_t{unit} * U::kBytes, min(kUnitItems, items - unit * kUnitItems),
                             item % kUnitItems);
      } else {
        for (float& v : part) v = 0;
      }
    }
  };
  const auto store_weights = [&](int buffer) {
    __half* to = tiles + buffer * Shape::kTileHalves + (Shape::kM + my_row) * Shape::kPitch + my_column;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float* v = w + 8 * k;
      *reinterpret_cast<uint4*>(to + 8 * k) = {pack_half2(v[0], v[1]), pack_half2(v[2], v[3]), pack_half2(v[4], v[5]),
                                               pack_half2(v[6], v[7])};
    }
  };
  const auto fetch_x = [&](int step, int buffer) {
    constexpr int kPieces = Shape::kK / 8; // of 16 bytes per row
    __half* to = tiles + buffer * Shape::kTileHalves;
#pragma unroll
    for (int i = threadIdx.x; i < Shape::kM * kPieces; i += kGemmThreads)
      copy_async_16(to + i / kPieces * Shape::kPitch + i % kPieces * 8,
                    args.x + (first_token + i / kPieces) * args.x_stride + step * Shape::kK + i % kPieces * 8);
    copy_async_commit();
  };

  float sum[kTilesM][kTilesN][4];
#pragma unroll
  for (int m = 0; m < kTilesM; ++m)
    for (int n = 0; n < kTilesN; ++n)
      for (float& v : sum[m][n]) v = 0;

  load_weights_of(0);
  store_weights(0);
  wait_for_predecessor();
  fetch_x(0, 0);
  copy_async_wait<0>();
  __syncthreads();
  for (int step = 0; step < steps; ++step) {
    const int buffer = step % 2;
    const bool more = step + 1 < steps;
    if (more) {
      fetch_x(step + 1, buffer ^ 1);
      load_weights_of(step + 1);
    }
    const __half* x_tile = tiles + buffer * Shape::kTileHalves;
    const __half* w_tile = x_tile + Shape::kM * Shape::kPitch;
#pragma unroll
    for (int k = 0; k < Shape::kK / Shape::kWarpsK; k += 16) {
      const int column = warp_k * (Shape::kK / Shape::kWarpsK) + k;
      uint32_t a[kTilesM][4], b[kTilesN / 2][4];
#pragma unroll
      for (int m = 0; m < kTilesM; ++m)
        load_matrix_x4(a[m], x_tile + (warp_m * Shape::kWarpM + 16 * m + lane % 16) * Shape::kPitch + column + lane / 16 * 8);
#pragma unroll
      for (int n = 0; n < kTilesN / 2; ++n)
        load_matrix_x4(b[n], w_tile + (warp_n * Shape::kWarpN + 16 * n + lane / 16 * 8 + lane % 8) * Shape::kPitch + column +
                                 lane / 8 % 2 * 8);
#pragma unroll
      for (int m = 0; m < kTilesM; ++m)
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) mma_16x8x16(sum[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
    if (more) store_weights(buffer ^ 1);
    copy_async_wait<0>();
    __syncthreads();
  }

  const auto write = [&](int token, int row, float value) {
    if (token >= args.tokens || row >= args.rows) return;
    value *= exp2f(static_cast<float>(args.exponent[token]));
    if (args.bias) value += args.bias[row];
    const int64_t at = int64_t{token} * args.rows + row;
    if (args.residual) value += args.residual[at];
    args.out[at] = value;
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
    for (int i = threadIdx.x; i < Shape::kM * Shape::kN; i += kGemmThreads) {
      float total = 0;
      for (int k = 0; k < Shape::kWarpsK; ++k) total += partial[k * Shape::kM * Shape::kN + i];
      write(first_token + i / Shape::kN, first_row + i % Shape::kN, total);
    }
  }
}

} // namespace ridge::kernels::cuda
