// The work of a small batch's kernel as its warps go through it: tasks, ranges of columns, and the ring of weights
// between the warp that fetches and those that multiply.
#pragma once

#include "kernels/cuda/runtime/ptx.cuh"
#include "kernels/cuda/small_batch/batch_plan.cuh"

namespace ridge::kernels::cuda {

// A barrier of some of a block's threads.
__device__ __forceinline__ void named_sync(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// An offset that stays in a register. The compiler would otherwise add it up of its parts for each use.
__device__ __forceinline__ int kept_offset(int offset) {
  asm volatile("" : "+r"(offset));
  return offset;
}

// A tile of tokens and a share of the row tiles.
struct BatchTask {
  int token_tile, first_row_tile, end_row_tile;
  ExpertTile tokens;
};

// The tasks of a launch. Producers and consumers go through them in the same order: tiles of tokens, then ranges of
// columns (passes), then tiles of 16 rows.
template <int kTileTokens>
struct BatchTasks {
  const BatchArgs& args;
  bool experts;
  int token_tiles, passes;

  __device__ __forceinline__ explicit BatchTasks(const BatchArgs& args) : args(args), experts(args.tiles != nullptr) {
    token_tiles = experts ? *args.tile_count : args.token_tiles;
    passes = args.serial_ranges ? args.ranges : 1;
  }
  __device__ __forceinline__ int count() const {
    return token_tiles * args.shares * (args.serial_ranges ? 1 : args.ranges);
  }
  __device__ __forceinline__ BatchTask operator[](int task) const {
    const int share = task % args.shares, token_tile = task / args.shares % token_tiles;
    return {token_tile, static_cast<int>(int64_t{share} * args.row_tiles / args.shares),
            static_cast<int>(int64_t{share + 1} * args.row_tiles / args.shares),
            experts ? args.tiles[token_tile]
                    : ExpertTile{0, token_tile * kTileTokens,
                                 min(kTileTokens, args.product.tokens - token_tile * kTileTokens)}};
  }
  __device__ __forceinline__ int range(int task, int pass) const {
    return args.serial_ranges ? pass : task / (args.shares * token_tiles);
  }
  // The row of activations, or with experts the slot, of token `i` of a task.
  __device__ __forceinline__ int slot(const BatchTask& work, int i) const {
    return experts ? args.order[work.tokens.first + i] : work.tokens.first + i;
  }
  // Where the partial sums of a row tile over a range of columns go. With serial_ranges a block keeps one per row tile
  // of its share and adds to it range by range.
  __device__ __forceinline__ float* partial(const BatchTask& work, int row_tile, int range) const {
    const int longest_share = (args.row_tiles + args.shares - 1) / args.shares;
    return args.partial + (args.serial_ranges
                               ? int64_t{blockIdx.x} * longest_share + row_tile - work.first_row_tile
                               : (int64_t{work.token_tile} * args.row_tiles + row_tile) * args.ranges + range) *
                              (kTileTokens * kBatchRows);
  }
};

// A warp group's barriers: of its ring, the fetching warp has filled a slot, the consumers have read it; of the sums,
// the consumers have stored them, the epilogue has read them.
template <typename Format>
struct BatchBarriers {
  CopyBarrier full[BatchShape<Format>::kMostSlots], empty[BatchShape<Format>::kMostSlots], sums_full, sums_empty;
};

// A warp group's ring of weights, and where one of its sides is.
template <typename Format>
struct BatchRing {
  using B = BatchShape<Format>;
  uint8_t* slots;
  BarrierAddress barriers; // BatchBarriers
  int count;               // of slots
  int slot = 0, parity = 0;

  __device__ __forceinline__ BarrierAddress full() const { return barriers + slot; }
  __device__ __forceinline__ BarrierAddress empty() const { return barriers + slot + B::kMostSlots; }

  __device__ __forceinline__ void advance() {
    if (++slot == count) slot = 0, parity ^= 1;
  }
  __device__ __forceinline__ uint8_t* bytes() const { return slots + slot * B::kSlotBytes; }
};

// The row's groups and warp tiles that all phases count with.
template <typename Format>
struct BatchColumns {
  struct Range {
    int number, first, end; // warp tiles
  };
  int groups, warp_tiles, range_tiles;
  __device__ __forceinline__ explicit BatchColumns(const BatchArgs& args) : range_tiles(args.range_tiles) {
    groups = static_cast<int>(TileLayout<Format>::groups_of(args.product.cols));
    warp_tiles = (groups + kTileGroups - 1) / kTileGroups;
  }
  __device__ __forceinline__ Range range(int number) const {
    const int first = number * range_tiles;
    return {number, first, min(warp_tiles, first + range_tiles)};
  }
};

} // namespace ridge::kernels::cuda
