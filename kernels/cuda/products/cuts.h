// How each kernel divides a product among blocks and warps, and whether the chip has room for it: plans choose by these
// functions, launchers take what they return.
#pragma once

#include "core/host_device.h"
#include "kernels/cuda/products/desc.h"
#include "kernels/cuda/products/half_layout.h"
#include "kernels/cuda/products/scratch_sizes.h"

#include <algorithm>
#include <optional>

namespace ridge::kernels::cuda {

// matvec/. Fewer warps on chips with less shared memory (64 KB on sm_75, 99 on sm_86, 89, 120).
inline constexpr int kMatvecWarps = 16, kMatvecThreads = kMatvecWarps * 32;
inline constexpr int kMaxMatvecTokens = 4; // per pass over the weights
// A launch that also does other work has at least as many; fewer were not measured.
inline constexpr int kLeastJoinedWarps = kMatvecWarps / 2;
inline constexpr int kMaxRouterRows = 2; // of a folded router, per block
inline constexpr int kRouterSums = kMaxRouterRows * 2 * kMatvecWarps;
constexpr int64_t router_scores_bytes(int64_t columns, int rows) { return (rows * columns + kRouterSums) * 4 + 16; }

// A chunk is a row block's warp tiles of the same columns. A ring holds 3 KB in flight per warp, 48 KB per
// multiprocessor; twice that for large warp tiles, whose arithmetic is light.
constexpr int chunk_bytes(int tile_bytes) { return row_block_rows(tile_bytes) * tile_bytes; }
constexpr int chunk_slots(int tile_bytes) {
  const int in_flight = tile_bytes >= 1024 ? 6400 : 3200, bytes = chunk_bytes(tile_bytes);
  return std::clamp((in_flight + bytes - 1) / bytes + 1, 3, 8);
}

struct MatvecCut {
  int tokens = 1;     // per pass over the weights
  bool exact = false; // f32 activations
  int warps = 0;      // 0: too wide
  int blocks = 0;     // of row blocks
  int64_t shared_bytes = 0;
  bool waits = false; // for its input: no use of dataflow
};
MatvecCut cut_matvec(const ChipLimits& chip, const ProductDesc& product, bool exact);

// LoRA adapters of one or two tokens beside a matvec, behind whose shared memory theirs begins (adapter_rows.cuh).
inline constexpr int kMaxAdapterRows = 4; // of A, per block
inline constexpr int kLeastAdaptedWarps = 12;
// Floats: a sum per warp, [tokens][kMaxAdapterRows], up to the last row in use. An 8B's ffn_down in Q6_K leaves an H200
// less than 1 KB beside a row of A.
constexpr int adapter_sums(int tokens, int rows) { return ((tokens - 1) * kMaxAdapterRows + rows) * kMatvecWarps; }
struct AdapterCut {
  int rows = 0, blocks = 0;                               // of A, per block; blocks with such rows
  int shared_offset = 0, b_offset = 0, scaled_offset = 0; // b, scaled: behind shared_offset
};
struct AdaptedCut {
  int warps = 0, blocks = 0; // fewer warps than kMatvecWarps where that makes room
  int64_t shared_bytes = 0;
  bool waits = false;
  AdapterCut adapter;
};
std::optional<AdaptedCut> cut_adapted(const ChipLimits& chip, const ProductDesc& product);

// Two products of one or two tokens with the same input and different formats, in one launch.
struct PairCut {
  int first_blocks = 0;
  int warps = 0; // kMatvecWarps if either product is adapted
  int64_t shared_bytes = 0;
  bool waits[2] = {};
  AdapterCut adapters[2] = {}; // if either product is adapted
};
std::optional<PairCut> cut_pair(const ChipLimits& chip, const ProductDesc& first, const ProductDesc& second);

// A matvec with a folded router's scores. One block per token is left for the choice.
struct RouterCut {
  int warps = 0, blocks = 0, rows = 0; // rows: of the router, per block
  int64_t product_bytes = 0, shared_bytes = 0;
};
std::optional<RouterCut> cut_router(const ChipLimits& chip, const ProductDesc& product, int64_t experts, int64_t width);

// small_batch/batch.cuh and wide_batch.cuh.
inline constexpr int kBatchStaticBytes = 1024, kBatchWarps = 16;
inline constexpr int kMaxChunks = 16; // of activations
constexpr int batch_consumer_warps(int group_weights) { return std::min(group_weights / 4, 8); }
constexpr int batch_warp_groups(int group_weights) {
  return std::min(kBatchWarps / batch_consumer_warps(group_weights), 3);
}
// An odd number of pieces avoids bank conflicts.
constexpr int batch_row_pitch(int tile_bytes) { return 16 * (tile_bytes / 16 | 1); }
constexpr int batch_slot_bytes(int tile_bytes) { return kBatchRows * batch_row_pitch(tile_bytes); }
// At least 48 KB in flight.
inline constexpr int kMaxBatchSlots = 12;
constexpr int batch_min_slots(int group_weights, int tile_bytes) {
  return std::clamp((48 << 10) / (batch_warp_groups(group_weights) * batch_slot_bytes(tile_bytes)) + 1, 3, 8);
}

// Larger tiles need more registers.
constexpr int wide_groups(int tile_tokens) { return tile_tokens == kCountedTile ? 3 : tile_tokens > 96 ? 2 : 4; }
inline constexpr int kWideRows = 64; // of weights, per warpgroup
inline constexpr int kWideRingBytes = 192 << 10;
inline constexpr int kWideSharedBytes = kWideRingBytes + 1024;
inline constexpr int kWideStaticBytes = 3072; // barriers, WideTokens
constexpr int wide_slots(int tile_tokens) { return kWideRingBytes / (kWideColumns * tile_tokens * 2); }
inline constexpr int kMaxDividedTokens = 512; // more tokens make enough blocks without dividing columns

struct TileCut {
  int token_tiles = 1, row_tiles = 0;
  int ranges = 1;             // of columns
  bool serial_ranges = false; // a block takes all in turn; otherwise another kernel adds their sums
  int range_tiles = 0, warp_groups = 0, shares = 1, slots = 0, shared_bytes = 0; // batch.cuh
  int log2_parts = 0; // wide_batch.cuh: 1, 2 or 4 warpgroups split a range's columns

  bool leaves_sums() const { return ranges > 1 && !serial_ranges; }
};
std::optional<TileCut> cut_tiles(const ChipLimits& chip, const ProductDesc& product, int tile_tokens);
std::optional<TileCut> cut_wide(const ChipLimits& chip, const ProductDesc& product);
TileCut cut_sorted_wide(const ProductDesc& product, int64_t experts, int tile_tokens);

// small_batch/expert_dots.cuh.
inline constexpr int kDotStaticBytes = 1024, kDotTokens = 8;
inline constexpr int kDotConsumers = 16, kMaxDotStages = 32; // warps; row tiles in the ring
inline constexpr int kUnitGroups = 4;
// A unit: 16 bytes for each half group, group and part (high, low), in the lanes' order; then ColumnScales.
inline constexpr int kDotPartBytes = 16 * 2 * kUnitGroups, kDotUnitBytes = 2 * kDotPartBytes + 16 * kUnitGroups;
inline constexpr int kDotSumBytes = kDotConsumers * kDotTokens * kBatchRows * 4, kDotZeroBytes = 2 * kDotPartBytes;
// Row g of the first or second eight. Lanes read eight rows at a time; to avoid bank conflicts none should be a
// multiple of 128 bytes behind another, so from row blocks of four warp tiles of 64 · n bytes (n odd) each eight takes
// two rows.
constexpr bool dot_rows_spread(int tile_bytes) { return row_block_rows(tile_bytes) == 4 && tile_bytes % 128 == 64; }
RIDGE_HD constexpr int dot_row(bool spread, int g, int second) {
  return spread ? g / 2 * 4 + g % 2 + 2 * second : g + 8 * second;
}

struct DotsCut {
  int stages = 0, team = 0, log2_team = 0; // row tiles in the ring; warps per row tile
  int room = 0;                            // tokens that fit
  int row_block_pitch = 0;                 // bytes
  int row_tiles = 0, shared_bytes = 0;
};
std::optional<DotsCut> cut_dots(const ChipLimits& chip, const ProductDesc& product); // at most 8 tokens per expert

} // namespace ridge::kernels::cuda
