// Sizes of the scratch memory of products and attention, which kernels, their launchers and plans of memory
// (memory_plan.h) share. Without CUDA headers: memory is planned without a GPU.
#pragma once

#include "core/host_device/round_up.h"
#include "kernels/cuda/products/half_layout.h"

#include <algorithm>
#include <cstdint>

namespace ridge::kernels::cuda {

inline constexpr int64_t kFloatBytes = 4, kF16Bytes = 2;

// Products for small batches (small_batch/batch.h).
inline constexpr int kBatchRows = 16;     // of a weight matrix in a tile
inline constexpr int kMaxTileTokens = 32; // of a tile
inline constexpr int64_t kBatchScratchBytes = 64 << 20;

// What gate and up write as f16 for down (BatchArgs::out_half): of so many slots at most, in as much memory.
inline constexpr int64_t kHalfBytes = 16 << 20;
inline constexpr int kMostHalfTokens = 16; // of a tile: for more there are no registers, and it gave nothing
inline constexpr int kLargestPitch = 32;   // floats: the rows' largest values are a line apart
constexpr int64_t half_slots(int64_t cols) { return kHalfBytes / interleaved_bytes(1, cols); }

// Rows that one expert was chosen for, at most as many as a tile of tokens has: slots order[first], …
struct ExpertTile {
  int expert, first, count;
};
inline constexpr int64_t kMostSortedWideBytes = 192 << 20; // of inputs that lie in such tiles
constexpr int64_t most_expert_tiles(int64_t slots, int64_t experts, int tile_tokens) {
  return slots / tile_tokens + experts;
}

// Products of prompts (gemm/prompt_product.h).
inline constexpr int kTileColumns = 64; // of an operand
inline constexpr int kTileRowBytes = kTileColumns * 2;
inline constexpr int kRowsAtOnce = 256;              // operands have a multiple of this many rows
inline constexpr int64_t kExpandedBytes = 112 << 20; // of decoded weights in a buffer, unless 256 rows need more

inline constexpr int kPromptTokens = 128; // x has a multiple of this many rows; what those past the end hold is free
inline constexpr int64_t kMostNormedColumns = 16384; // that a layer norm may have on the way to f16

constexpr int64_t tiles_of(int64_t cols) { return (cols + kTileColumns - 1) / kTileColumns; }
// Halves that a value takes as f16 tiles. They lie in the memory of its floats, with an exponent per row behind them
// (TiledHalf).
constexpr int64_t tiled_half_elements(int64_t rows, int64_t cols) {
  return core::round_up(rows, kPromptTokens) * tiles_of(cols) * kTileColumns;
}
constexpr bool has_room_for_tiled_half(int64_t rows, int64_t cols) {
  return tiled_half_elements(rows, cols) * kF16Bytes + rows <= rows * cols * kFloatBytes;
}
// Bytes of each of the two buffers, for matrices of at most so many columns.
constexpr int64_t expanded_bytes(int64_t cols) {
  return std::max(kExpandedBytes, tiles_of(cols) * kRowsAtOnce * 3 * kTileRowBytes);
}

// Attention (attention/attention.cu, wide_attention.cu).
inline constexpr int kAttentionRows = 16;      // (token, head) pairs per tile
inline constexpr int kMaxAttentionSplits = 64; // blocks that share one tile's context
inline constexpr int kMergedSplits = 8;        // of wide heads, that are merged in one group
inline constexpr int kAttentionTickets = 1 + kMaxAttentionSplits / kMergedSplits;

// A block with wide heads has twice the registers, and twice the bytes of keys under way.
constexpr int attention_blocks_per_sm(int64_t head_dim) { return head_dim > 128 ? 1 : 2; }
// Blocks that share the context of each of so many tiles and KV heads, of which `seen` positions are seen at most: as
// many as run at once, where the context has that much to share out.
constexpr int attention_splits(int64_t tiles_and_heads, int64_t head_dim, int64_t seen, int sm_count) {
  const int64_t at_once = int64_t{attention_blocks_per_sm(head_dim)} * sm_count;
  return static_cast<int>(
      std::clamp<int64_t>(at_once / tiles_and_heads, 1, std::min<int64_t>(kMaxAttentionSplits, (seen + 63) / 64)));
}
// Per tile, KV head and split: running maximum and sum of 16 rows, then their outputs [16][v_dim].
constexpr int64_t part_floats(int64_t v_dim) { return 2 * kAttentionRows + kAttentionRows * v_dim; }
// For all blocks that share a context, which are no more than run at once (attention_splits; wide heads' launcher).
constexpr int64_t attention_scratch_floats(int64_t head_dim, int64_t v_dim, int sm_count) {
  return int64_t{attention_blocks_per_sm(head_dim)} * sm_count * part_floats(v_dim);
}

// Latent attention (attention/latent_attention.cu): per split of a tile maximum and sum of each row, then their outputs
// [rows][dim]. Tiles of up to 64 rows; no more blocks than multiprocessors share contexts.
constexpr int64_t latent_part_floats(int64_t rows, int64_t dim) { return rows * (2 + dim); }
constexpr int64_t latent_scratch_floats(int64_t v_dim, int sm_count) {
  return sm_count * latent_part_floats(64, v_dim);
}

// Tokens whose scores of positions are computed at a time (attention/index_choice.cu).
inline constexpr int kIndexedTokens = 64;

} // namespace ridge::kernels::cuda
