// Divides small_batch/batch.cuh's work.
#pragma once

#include "kernels/cuda/layout/span_weights.cuh"
#include "kernels/cuda/products/half_layout.h"
#include "kernels/cuda/small_batch/batch.h"

#include <algorithm>

namespace ridge::kernels::cuda {

inline constexpr int kBatchStaticBytes = 1024;
inline constexpr int kBatchWarps = 16;

template <typename Format>
struct BatchShape {
  static constexpr int kConsumerWarps = std::min(kTileSpans<Format> / 4, 8);
  static constexpr int kConsumerThreads = kConsumerWarps * kWarp,
                       kMaxWarpGroups = std::min(kBatchWarps / kConsumerWarps, 3);
  static constexpr int kThreads = kConsumerThreads + 2 * kWarp, kMaxThreads = kMaxWarpGroups * kThreads;
  static constexpr int kPieces = TileLayout<Format>::kBytes / 16;
  static constexpr int kRowPitch = 16 * (kPieces | 1); // an odd number of pieces avoids bank conflicts
  static constexpr int kSlotBytes = kBatchRows * kRowPitch;
  // At least 48 KB in flight.
  static constexpr int kMinSlots = std::clamp((48 << 10) / (kMaxWarpGroups * kSlotBytes) + 1, 3, 8), kMaxSlots = 12;
  // Sums [tokens / 8][warps][lanes][4], then the ring.
  static constexpr int sums_bytes(int tile_tokens) { return kConsumerWarps * tile_tokens * kBatchRows * 4; }
  static constexpr int warp_group_bytes(int tile_tokens, int slots) {
    return sums_bytes(tile_tokens) + slots * kSlotBytes;
  }
};

// A range has whole chunks (half_layout.h).
template <typename Format>
inline constexpr int kChunkTiles = kChunkColumns / 32 / kTileSpans<Format>;
inline constexpr int kMaxChunks = 16;

// At the least estimated cost. Returns bytes of shared memory, or 0 if such tiles do not fit.
template <typename Format>
int plan_batch(const Launch& launch, BatchArgs& args, int tile_tokens) {
  using B = BatchShape<Format>;
  const int limit = launch.shared_per_block - kBatchStaticBytes;
  const int warp_tiles =
      static_cast<int>((TileLayout<Format>::groups_of(args.product.cols) + kTileGroups - 1) / kTileGroups);
  const auto tiles = [](int n, int per_tile) { return (n + per_tile - 1) / per_tile; };
  const auto bytes = [&](int warp_groups, int range) {
    return warp_groups * B::warp_group_bytes(tile_tokens, B::kMinSlots) +
           tiles(range, kChunkTiles<Format>) * tile_tokens * kChunkPitch;
  };
  const bool experts = args.tiles != nullptr;
  args.token_tiles = experts ? 1 : tiles(args.product.tokens, tile_tokens);
  args.row_tiles = static_cast<int>(batch_row_tiles(args.product, args.gated));
  // Unit: a warp tile of 16 rows fetched by a multiprocessor.
  const double part_cost = tile_tokens * kBatchRows * 8.0 / (kBatchRows * TileLayout<Format>::kBytes);
  // activations while no weights arrive; a kernel
  constexpr double kPassCost = 10, kFinishCost = 8;
  double best = 0;
  for (int warp_groups = B::kMaxWarpGroups; warp_groups > 0; --warp_groups)
    for (int chunks = tiles(warp_tiles, kChunkTiles<Format>); chunks > 0; --chunks) {
      const int range = chunks * kChunkTiles<Format>, ranges = tiles(warp_tiles, range);
      if (bytes(warp_groups, range) > limit || chunks > kMaxChunks) continue;
      if (tiles(tiles(warp_tiles, kChunkTiles<Format>), ranges) != chunks) continue;
      for (const bool serial_ranges : {false, true}) {
        if (serial_ranges ? ranges == 1 && !experts : ranges > 1 && experts) continue;
        const int in_parallel = args.token_tiles * (serial_ranges ? 1 : ranges);
        const int shares = std::min(experts ? 4 : std::max(1, launch.sm_count / in_parallel), args.row_tiles);
        const int rows = tiles(args.row_tiles, shares), rounds = tiles(in_parallel * shares, launch.sm_count);
        const int64_t parts = ranges == 1     ? 0
                              : serial_ranges ? int64_t{launch.sm_count} * rows
                                              : int64_t{args.token_tiles} * args.row_tiles * ranges;
        if (parts * tile_tokens * kBatchRows * 4 > kBatchScratchBytes) continue;
        const int passes = serial_ranges ? ranges : 1;
        const double cost = rounds * (passes * range * (rows + tiles(rows, warp_groups)) + kPassCost * passes +
                                      (ranges > 1 ? part_cost * rows * passes : 0)) +
                            (ranges > 1 && !serial_ranges ? kFinishCost : 0);
        if (best != 0 && cost >= best) continue;
        best = cost;
        args.warp_groups = warp_groups;
        args.range_tiles = range;
        args.ranges = ranges;
        args.serial_ranges = serial_ranges;
        args.shares = Divisor(shares);
      }
    }
  if (best == 0) return 0;
  args.share_tiles = args.row_tiles / args.shares.by;
  args.longer_shares = args.row_tiles % args.shares.by;
  args.token_tile_count = Divisor(args.token_tiles);
  args.tasks = args.token_tiles * args.shares.by * (args.serial_ranges ? 1 : args.ranges);
  const int needed = bytes(args.warp_groups, args.range_tiles);
  const int more = std::min((limit - needed) / (args.warp_groups * B::kSlotBytes), B::kMaxSlots - B::kMinSlots);
  args.slots = B::kMinSlots + more;
  return needed + more * args.warp_groups * B::kSlotBytes;
}

} // namespace ridge::kernels::cuda
