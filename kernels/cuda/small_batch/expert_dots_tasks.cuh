// A block's share of the product, and its shared memory.
#pragma once

#include "kernels/cuda/runtime/warp.cuh"
#include "kernels/cuda/small_batch/batch_tasks.cuh"
#include "kernels/cuda/small_batch/expert_dots_input.cuh"

namespace ridge::kernels::cuda {

// A side visits every `by`th row tile.
struct RowTileWalk {
  int left, token_tile, row_tile, stage, parity = 0;
  int row_tiles, stages;

  __device__ __forceinline__ RowTileWalk(const ExpertDotArgs& args, int first, int count, int start)
      : left(count - start), token_tile(args.row_tile_count.quotient(first + start)),
        row_tile(first + start - token_tile * args.product.row_tiles), stage(start), row_tiles(args.product.row_tiles),
        stages(args.stages) {
    wrap();
  }
  __device__ __forceinline__ void advance(int by) {
    left -= by, row_tile += by, stage += by;
    wrap();
  }

 private:
  __device__ __forceinline__ void wrap() {
    while (row_tile >= row_tiles) row_tile -= row_tiles, ++token_tile;
    while (stage >= stages) stage -= stages, parity ^= 1;
  }
};

// A block's row tiles, weighted by tokens: equal counts would make the longest block take twice the mean.
template <typename Format>
struct BlockShare {
  using S = ExpertDotShape<Format>;
  static constexpr int kTileCost = 5; // of unpacking a row tile, in tokens
  int cut[2];                         // first row tiles of this block and the next
  int of_warp[S::kWarps];

  // All threads call it; `cut` is valid afterwards.
  __device__ __forceinline__ void find(const BatchArgs& args) {
    const int tiles = *args.tile_count, each = (tiles + S::kThreads - 1) / S::kThreads;
    const int begin = threadIdx.x * each, end = min(begin + each, tiles);
    int mine = 0;
    for (int i = begin; i < end; ++i) mine += kTileCost + args.tiles[i].count;
    const int so_far = warp_prefix_sum(mine);
    if (threadIdx.x % kWarp == kWarp - 1) of_warp[threadIdx.x / kWarp] = so_far;
    if (threadIdx.x < 2) cut[threadIdx.x] = tiles * args.row_tiles;
    __syncthreads();
    unsigned before = so_far - mine, all = 0;
#pragma unroll
    for (int w = 0; w < S::kWarps; ++w) {
      if (w < static_cast<int>(threadIdx.x / kWarp)) before += of_warp[w];
      all += of_warp[w];
    }
    const unsigned row_tiles = args.row_tiles, total = all * row_tiles;
    const unsigned each_block = total / gridDim.x, longer = total - each_block * gridDim.x;
    for (int i = begin; i < end; ++i) {
      const unsigned cost = kTileCost + args.tiles[i].count;
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const unsigned block = blockIdx.x + side, share = each_block * block + min(block, longer),
                       at = share - before * row_tiles; // wraps to a huge value before this tile
        if (at < cost * row_tiles) cut[side] = static_cast<int>(i * row_tiles + (at + cost - 1) / cost);
      }
      before += cost;
    }
    __syncthreads();
  }
};

template <typename Format>
struct ExpertDotBarriers {
  using S = ExpertDotShape<Format>;
  CopyBarrier full[S::kMaxStages], empty[S::kMaxStages];
  CopyBarrier sums_full[S::kConsumers], sums_empty[S::kConsumers];
};

template <typename Format>
struct ExpertDotMemory {
  using S = ExpertDotShape<Format>;
  uint8_t *zeros, *activations, *ring;
  float* sums;
  int stage_bytes, units, token_bytes;
  BarrierAddress barriers;

  __device__ __forceinline__ ExpertDotMemory(const ExpertDotArgs& args, const ExpertDotBarriers<Format>& barriers)
      : barriers(BarrierAddress(&barriers).in_register()) {
    extern __shared__ uint4 shared[];
    units = (args.product.product.cols / 32 + kUnitGroups - 1) / kUnitGroups;
    token_bytes = offset_in_register(units * S::kUnitBytes);
    stage_bytes = offset_in_register(S::kRowBlocks * args.row_block_pitch);
    zeros = reinterpret_cast<uint8_t*>(shared);
    sums = reinterpret_cast<float*>(zeros + S::kZeroBytes);
    activations = zeros + S::kZeroBytes + S::kSumBytes;
    ring = activations + offset_in_register(args.room * token_bytes);
  }
  __device__ __forceinline__ BarrierAddress full(int stage) const { return barriers + stage; }
  __device__ __forceinline__ BarrierAddress empty(int stage) const { return barriers + (S::kMaxStages + stage); }
  __device__ __forceinline__ BarrierAddress sums_full(int team) const { return barriers + (2 * S::kMaxStages + team); }
  __device__ __forceinline__ BarrierAddress sums_empty(int team) const {
    return barriers + (2 * S::kMaxStages + S::kConsumers + team);
  }
};

} // namespace ridge::kernels::cuda
