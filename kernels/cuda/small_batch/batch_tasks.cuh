// A small batch's tasks, ranges of columns, and ring of weights.
#pragma once

#include "kernels/cuda/layout/span_weights.cuh"
#include "kernels/cuda/runtime/ptx.cuh"
#include "kernels/cuda/small_batch/batch.h"

namespace ridge::kernels::cuda {

template <typename Format>
struct BatchShape {
  using U = TileLayout<Format>;
  static constexpr int kConsumerWarps = batch_consumer_warps(kTileSpans<Format>);
  static constexpr int kConsumerThreads = kConsumerWarps * kWarp,
                       kMaxWarpGroups = batch_warp_groups(kTileSpans<Format>);
  static constexpr int kThreads = kConsumerThreads + 2 * kWarp, kMaxThreads = kMaxWarpGroups * kThreads;
  static constexpr int kRowPitch = batch_row_pitch(U::kBytes), kSlotBytes = batch_slot_bytes(U::kBytes);
  static constexpr int kMaxSlots = kMaxBatchSlots;
  // Sums [tokens / 8][warps][lanes][4], then the ring.
  static constexpr int sums_bytes(int tile_tokens) { return kConsumerWarps * tile_tokens * kBatchRows * 4; }
  static constexpr int warp_group_bytes(int tile_tokens, int slots) {
    return sums_bytes(tile_tokens) + slots * kSlotBytes;
  }
};

// A range has whole chunks (half_layout.h).
template <typename Format>
inline constexpr int kChunkTiles = kChunkColumns / 32 / kTileSpans<Format>;

__device__ __forceinline__ void named_sync(int name, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

// Keeps an offset in a register; the compiler would recompute it for each use.
__device__ __forceinline__ int offset_in_register(int offset) {
  asm volatile("" : "+r"(offset));
  return offset;
}

struct BatchTask {
  int first_row_tile, end_row_tile, range;
  ExpertTile tokens;
};

// Producers and consumers traverse the same order: tasks, ranges (passes), tiles of 16 rows.
template <int kTileTokens, bool kExperts>
class BatchTasks {
 public:
  const BatchArgs& args;

  __device__ __forceinline__ explicit BatchTasks(const BatchArgs& args) : args(args) {
    if constexpr (kExperts) {
      const int units = *args.tile_count * args.row_tiles, block = blockIdx.x, blocks = gridDim.x;
      const int each = units / blocks, more = units % blocks;
      first_ = block * each + min(block, more), end_ = first_ + each + (block < more ? 1 : 0);
      end_piece_ = first_ == end_ ? piece_of(first_) : piece_of(end_ - 1) + 1;
    }
  }
  __device__ __forceinline__ int passes() const { return args.serial_ranges ? args.ranges : 1; }

  template <typename Visit>
  __device__ __forceinline__ void each(Visit&& visit) const {
    if constexpr (kExperts)
      for (int piece = piece_of(first_); piece < end_piece_; ++piece) visit(of_experts(piece));
    else
      for (int task = blockIdx.x; task < args.tasks; task += gridDim.x) visit(of_rows(task));
  }

  __device__ __forceinline__ int slot(const BatchTask& work, int i) const {
    return kExperts ? args.order[work.tokens.first + i] : work.tokens.first + i;
  }
  __device__ __forceinline__ int row_of(int slot) const { return kExperts ? slot / args.used : slot; }
  __device__ __forceinline__ int64_t expert(const BatchTask& work) const {
    return kExperts ? args.experts.of(work.tokens.expert) : 0;
  }
  __device__ __forceinline__ float* sums(int range, int token) const {
    return args.partial + batch_sums_at(args, kTileTokens, range, token);
  }
  // With serial_ranges, the block accumulates sums over ranges here.
  __device__ __forceinline__ float* accumulated_sums(const BatchTask& work, int row_tile) const {
    return args.partial +
           (int64_t{blockIdx.x} * longest_share() + row_tile - work.first_row_tile) * (kTileTokens * kBatchRows);
  }

 private:
  __device__ __forceinline__ int longest_share() const { return args.share_tiles + (args.longer_shares > 0 ? 1 : 0); }

  __device__ __forceinline__ BatchTask of_rows(int task) const {
    const int rest = args.shares.quotient(task), share = task - rest * args.shares.by,
              range = args.token_tile_count.quotient(rest), token = (rest - range * args.token_tiles) * kTileTokens;
    const int first = share * args.share_tiles + min(share, args.longer_shares);
    return {first,
            first + args.share_tiles + (share < args.longer_shares ? 1 : 0),
            range,
            {0, token, min(kTileTokens, args.product.tokens - token)}};
  }

  // All experts' row tiles are concatenated and split evenly. With serial_ranges a block takes as many at a time as it
  // can keep sums of.
  __device__ __forceinline__ int piece_rows() const { return args.serial_ranges ? longest_share() : args.row_tiles; }
  __device__ __forceinline__ int pieces() const { return (args.row_tiles + piece_rows() - 1) / piece_rows(); }
  __device__ __forceinline__ int piece_of(int unit) const {
    return unit / args.row_tiles * pieces() + unit % args.row_tiles / piece_rows();
  }
  __device__ __forceinline__ BatchTask of_experts(int piece) const {
    const int tile = piece / pieces(), first = piece % pieces() * piece_rows();
    const int before = tile * args.row_tiles;
    return {max(first, first_ - before), min(min(first + piece_rows(), args.row_tiles), end_ - before), 0,
            args.tiles[tile]};
  }

  int first_, end_, end_piece_;
};

// Ring: slot filled, slot read. Sums: stored, read by the epilogue.
template <typename Format>
struct BatchBarriers {
  CopyBarrier full[BatchShape<Format>::kMaxSlots], empty[BatchShape<Format>::kMaxSlots], sums_full, sums_empty;

  __device__ __forceinline__ void init() {
    constexpr int kConsumers = BatchShape<Format>::kConsumerThreads;
    for (CopyBarrier& barrier : full) barrier.init(kWarp);
    for (CopyBarrier& barrier : empty) barrier.init(kConsumers);
    sums_full.init(kConsumers);
    sums_empty.init(kWarp);
  }
};

template <typename Format>
struct BatchRing {
  using B = BatchShape<Format>;
  uint8_t* slots;
  BarrierAddress barriers;
  int count;
  int slot = 0, parity = 0;

  __device__ __forceinline__ BarrierAddress full() const { return barriers + slot; }
  __device__ __forceinline__ BarrierAddress empty() const { return barriers + slot + B::kMaxSlots; }

  __device__ __forceinline__ void advance() {
    if (++slot == count) slot = 0, parity ^= 1;
  }
  __device__ __forceinline__ uint8_t* bytes() const { return slots + slot * B::kSlotBytes; }
};

template <typename Format>
struct BatchColumns {
  struct Range {
    int number, first, end;
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
