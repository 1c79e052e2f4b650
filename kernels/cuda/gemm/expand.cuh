// Decodes packed rows to f16 operands (prompt_product.h).
#pragma once

#include "kernels/cuda/gemm/expand.h"
#include "kernels/cuda/layout/span_weights.cuh"
#include "kernels/cuda/products/scratch_sizes.h"
#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

inline constexpr int kExpandThreads = 256, kExpandRows = 16, kExpandTiles = 8;

inline int expand_tasks(const ExpandArgs& args) {
  int rows = 0;
  for (int s = 0; s < args.segments; ++s) rows += (args.segment[s].rows + kExpandRows - 1) / kExpandRows;
  return rows * static_cast<int>((tiles_of(args.cols) + kExpandTiles - 1) / kExpandTiles);
}

// A warp decodes 16 rows by 64 columns, half a row per lane, and writes whole lines through shared memory.
template <typename Format>
__global__ void __launch_bounds__(kExpandThreads) expand_kernel(const __grid_constant__ ExpandArgs args) {
  using U = TileLayout<Format>;
  constexpr int kWarpTileColumns = U::kWeights;
  __shared__ uint4 staging[kExpandThreads / kWarp][kExpandRows * 8];
  let_successor_start();
  wait_for_predecessor();
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int tiles = (args.cols + kTileColumns - 1) / kTileColumns;
  const int column_tasks = (tiles + kExpandTiles - 1) / kExpandTiles;
  const int task = blockIdx.x * (kExpandThreads / kWarp) + warp;
  int first_row = task / column_tasks * kExpandRows, s = 0;
  for (; s < args.segments; ++s) {
    const int rows = (args.segment[s].rows + kExpandRows - 1) / kExpandRows * kExpandRows;
    if (first_row < rows) break;
    first_row -= rows;
  }
  if (s == args.segments) return;
  const ExpandSegment& segment = args.segment[s];
  const int groups = static_cast<int>(U::groups_of(args.cols));
  const int row = lane / 2, half = lane % 2;
  const int my_row = min(first_row + row, segment.rows - 1);
  const auto fetch = [&](SpanWeights<Format>& to, int tile) {
    const int column = tile * kTileColumns + half * 32, warp_tile = column / kWarpTileColumns;
    to.fetch(segment.weights + U::offset(my_row, warp_tile, args.row_bytes),
             min(kTileGroups, groups - warp_tile * kTileGroups), column % kWarpTileColumns / 32);
  };
  const int begin = task % column_tasks * kExpandTiles, end = min(begin + kExpandTiles, tiles);
  SpanWeights<Format> next;
  fetch(next, begin);
  for (int tile = begin; tile < end; ++tile) {
    const SpanWeights<Format> now = next;
    if (tile + 1 < end) fetch(next, tile + 1);
    uint32_t pairs[16];
    now.halves(pairs, (tile * kTileColumns + half * 32) % kWarpTileColumns / 32);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      staging[warp][row * 8 + ((4 * half + i) ^ (row & 7))] = {pairs[4 * i], pairs[4 * i + 1], pairs[4 * i + 2],
                                                               pairs[4 * i + 3]};
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int from_row = lane / 8 + 4 * i;
      if (first_row + from_row >= segment.rows) continue;
      const int to_row = segment.first + (first_row + from_row) * args.stride;
      const int piece = lane % 8 ^ (to_row & 7);
      reinterpret_cast<uint4*>(args.out)[(int64_t{tile} * args.out_rows + to_row) * 8 + lane % 8] =
          staging[warp][from_row * 8 + (piece ^ (from_row & 7))];
    }
    __syncwarp();
  }
}

} // namespace ridge::kernels::cuda
