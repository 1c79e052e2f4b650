// The shape of wide_prompt_attention.cu's blocks, what their tokens see, and the tensor copies.
#pragma once

#include "kernels/cuda/attention/prompt_attention.cuh"
#include "kernels/cuda/attention/wide_prompt_attention.h"

namespace ridge::kernels::cuda {

template <bool kLatent>
struct WideHeadsShape {
  static constexpr int kRows = 64, kKeys = 64, kDim = kWidePromptHead;
  static constexpr int kConsumers = 2, kThreads = (kConsumers + 1) * 128, kOwnKeys = kKeys / kConsumers;
  static constexpr int kTileBytes = kKeys * 128, kGroupTiles = 4, kGroups = kDim / 64 / kGroupTiles;
  // Tiles of the queries that stay in registers: operands from there spare shared memory's bandwidth and room.
  static constexpr int kHeldTiles = 2;
  static constexpr int kKeyTiles = kDim / 64 + (kLatent ? 1 : 0), kQueryTiles = kKeyTiles - kHeldTiles;
  static constexpr int kSlots = kLatent ? 4 : 5;     // groups
  static constexpr int kRestSlots = kLatent ? 2 : 1; // of latent keys behind the values
  static constexpr int kSlotBytes = kGroupTiles * kTileBytes;
  static constexpr int kWeightsAt = kQueryTiles * kTileBytes, kSlotsAt = kWeightsAt + 2 * kTileBytes,
                       kRestAt = kSlotsAt + kSlots * kSlotBytes;
  static constexpr int kSharedBytes = kRestAt + (kLatent ? kRestSlots * kTileBytes : 0) + 1024;
  static_assert(kRows == kKeys, "tiles of queries and weights are as large as those of keys");

  // Copies follow one another as their slots become free: keys of a step and values of the step before it take turns.
  RIDGE_HD static int fill_of_keys(int step, int group) {
    return kLatent || step == 0 ? kGroups * step + group : kGroups * (2 * step - 1) + group;
  }
  RIDGE_HD static int fill_of_values(int step, int group) {
    return kLatent ? kGroups * step + group : kGroups * (2 * step + 2) + group;
  }
};

struct WideHeadsArgs {
  AttentionArgs attention;
  const float* q_rest; // of latent attention: [tokens, heads * rest]
  int rest;
  CacheMaps maps;
};

#ifdef RIDGE_HAS_WGMMA

template <bool kLatent>
struct WideHeadsShared {
  using Shape = WideHeadsShape<kLatent>;
  CopyBarrier full[Shape::kSlots][Shape::kGroupTiles], empty[Shape::kSlots];
  CopyBarrier rest_full[Shape::kRestSlots], rest_empty[Shape::kRestSlots];
  float exchanged[Shape::kConsumers][Shape::kRows]; // rows' maxima of a step, in the end sums
};

// What the tokens of a block see.
template <bool kLatent, bool kVaried>
class WideHeadsTile {
  static constexpr int kRows = WideHeadsShape<kLatent>::kRows, kKeys = WideHeadsShape<kLatent>::kKeys;

 public:
  __device__ __forceinline__ explicit WideHeadsTile(const AttentionArgs& args)
      : args_(args), first_row(static_cast<int>(gridDim.y - 1 - blockIdx.y) * kRows), // the longest first
        rows(min(kRows, args.tokens * args.group.by - first_row)), first_position_(args.positions[0]) {
    seen_first = seen_by(0), seen_last = seen_by(rows - 1);
    first_key = seen_first.first / kRingBoxRows * kRingBoxRows;
    length = seen_last.end;
    steps = (length - first_key + kKeys - 1) / kKeys;
  }
  __device__ __forceinline__ int token_of(int row) const { return args_.group.quotient(first_row + row); }
  // The row's index among all tokens' heads.
  __device__ __forceinline__ int64_t head_of(int row) const {
    const int token = token_of(row), group = args_.group.by;
    return int64_t{token} * args_.heads + static_cast<int>(blockIdx.x) * group + first_row + row - token * group;
  }
  __device__ __forceinline__ Window::Span seen_by(int row) const {
    const int token = token_of(min(row, rows - 1)), position = first_position_ + token;
    if (kVaried && args_.places) return args_.visible.seen_from(position, args_.places[token]);
    return {kVaried ? args_.visible.first_seen(position) : 0, position + 1};
  }

 private:
  const AttentionArgs& args_;

 public:
  const int first_row, rows;
  Window::Span seen_first, seen_last;
  int first_key, length, steps;

 private:
  const int first_position_;
};

// By one warp.
template <bool kLatent, typename Tile>
__device__ __forceinline__ void copy_keys_and_values(const WideHeadsArgs& args, const Tile& tile, uint8_t* memory,
                                                     WideHeadsShared<kLatent>& shared) {
  using Shape = WideHeadsShape<kLatent>;
  constexpr int kKeys = Shape::kKeys, kTileBytes = Shape::kTileBytes, kGroupTiles = Shape::kGroupTiles;
  const int lane = threadIdx.x % kWarp;
  const Cache& cache = args.attention.cache;
  const int matrix = args.attention.streams[0] * cache.heads + static_cast<int>(blockIdx.x);
  const RowsFrom row_of(cache, tile.first_key);
  const int box_rows = args.maps.box_rows;
  const auto copy_tile = [&](uint8_t* to, const CUtensorMap& map, int column_tile, int step, const CopyBarrier& full) {
    const int key = tile.first_key + step * kKeys, boxes = (min(kKeys, tile.length - key) + box_rows - 1) / box_rows;
    BarrierAddress(&full).arrive_expecting(boxes * box_rows * 128);
    for (int box = 0; box < boxes; ++box)
      copy_box(to + box * box_rows * 128, map, 64 * column_tile, row_of(key + box * box_rows), matrix, full);
  };
  const auto copy_group = [&](int fill, const CUtensorMap& map, int group, int step) {
    const int slot = fill % Shape::kSlots;
    shared.empty[slot].wait(fill / Shape::kSlots % 2 ^ 1);
    if (lane < kGroupTiles)
      copy_tile(memory + Shape::kSlotsAt + slot * Shape::kSlotBytes + lane * kTileBytes, map,
                group * kGroupTiles + lane, step, shared.full[slot][lane]);
    __syncwarp();
  };
  const auto copy_keys = [&](int step) {
    for (int group = 0; group < Shape::kGroups; ++group)
      copy_group(Shape::fill_of_keys(step, group), args.maps.keys, group, step);
    if constexpr (kLatent) {
      const int slot = step % Shape::kRestSlots;
      shared.rest_empty[slot].wait(step / Shape::kRestSlots % 2 ^ 1);
      if (lane == 0)
        copy_tile(memory + Shape::kRestAt + slot * kTileBytes, args.maps.keys, Shape::kDim / 64, step,
                  shared.rest_full[slot]);
      __syncwarp();
    }
  };
  copy_keys(0);
  for (int step = 0; step < tile.steps; ++step) {
    if (step + 1 < tile.steps) copy_keys(step + 1);
    if constexpr (!kLatent)
      for (int group = 0; group < Shape::kGroups; ++group)
        copy_group(Shape::fill_of_values(step, group), args.maps.values, group, step);
  }
}

#endif

} // namespace ridge::kernels::cuda
