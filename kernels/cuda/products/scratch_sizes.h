// Scratch sizes shared by kernels, launchers and memory plans, which need no GPU or CUDA headers.
#pragma once

#include "core/host_device/round_up.h"
#include "kernels/cuda/products/half_layout.h"

#include <algorithm>
#include <cstdint>

namespace ridge::kernels::cuda {

inline constexpr int64_t kFloatBytes = 4, kF16Bytes = 2;

// small_batch/batch.h:
inline constexpr int kBatchRows = 16; // of weights
inline constexpr int64_t kBatchScratchBytes = 64 << 20;

// BatchArgs::out_half.
inline constexpr int64_t kHalfBytes = 16 << 20;
inline constexpr int kMaxHalfTokens = 16;   // more lack registers and gain nothing
inline constexpr int kRowMaximumPitch = 32; // floats: a cache line
constexpr int64_t half_slots(int64_t cols) { return kHalfBytes / interleaved_bytes(1, cols); }

// Slots order[first] … of one expert.
struct ExpertTile {
  int expert, first, count;
};
inline constexpr int64_t kMaxSortedWideBytes = 320 << 20;
constexpr int64_t most_expert_tiles(int64_t slots, int64_t experts, int tile_tokens) {
  return slots / tile_tokens + experts;
}

// gemm/prompt_product.h:
inline constexpr int kTileColumns = 64;
inline constexpr int kTileRowBytes = kTileColumns * 2;
inline constexpr int kRowsAtOnce = 256;              // operands are padded to this
inline constexpr int64_t kExpandedBytes = 112 << 20; // of decoded weights, unless 256 rows need more

inline constexpr int kPromptTokens = 128;      // x is padded to this, with anything
inline constexpr int kMaxAdapterColumns = 256; // of LoRA adapters behind a prompt product's x
inline constexpr int64_t kMaxNormedColumns = 16384;

constexpr int64_t tiles_of(int64_t cols) { return (cols + kTileColumns - 1) / kTileColumns; }
// In the memory of a value's floats, with an exponent per row (TiledHalf).
constexpr int64_t tiled_half_elements(int64_t rows, int64_t cols) {
  return core::round_up(rows, kPromptTokens) * tiles_of(cols) * kTileColumns;
}
constexpr bool has_room_for_tiled_half(int64_t rows, int64_t cols) {
  return tiled_half_elements(rows, cols) * kF16Bytes + rows <= rows * cols * kFloatBytes;
}
constexpr int64_t expanded_bytes(int64_t cols) {
  return std::max(kExpandedBytes, tiles_of(cols) * kRowsAtOnce * 3 * kTileRowBytes);
}

// attention/attention.cu, wide_attention.cu:
inline constexpr int kAttentionRows = 16;      // (token, head) pairs per tile
inline constexpr int kMaxAttentionSplits = 64; // blocks per tile's context
inline constexpr int kMergedSplits = 8;        // merged in one group, for wide heads
inline constexpr int kAttentionTickets = 1 + kMaxAttentionSplits / kMergedSplits;

// Wide heads take twice the registers and bytes in flight.
constexpr int attention_blocks_per_sm(int64_t head_dim) { return head_dim > 128 ? 1 : 2; }
// Blocks per context of at most `seen` positions: as many as run at once.
constexpr int attention_splits(int64_t tiles_and_heads, int64_t head_dim, int64_t seen, int sm_count) {
  const int64_t at_once = int64_t{attention_blocks_per_sm(head_dim)} * sm_count;
  return static_cast<int>(
      std::clamp<int64_t>(at_once / tiles_and_heads, 1, std::min<int64_t>(kMaxAttentionSplits, (seen + 63) / 64)));
}
// Maximum and sum of 16 rows, then outputs [16][v_dim].
constexpr int64_t part_floats(int64_t v_dim) { return 2 * kAttentionRows + kAttentionRows * v_dim; }
constexpr int64_t attention_scratch_floats(int64_t head_dim, int64_t v_dim, int sm_count) {
  return int64_t{attention_blocks_per_sm(head_dim)} * sm_count * part_floats(v_dim);
}

// attention/latent_attention.cu: maximum and sum of each row, then outputs [rows][dim]; up to 64 rows, one block per
// multiprocessor.
constexpr int64_t latent_part_floats(int64_t rows, int64_t dim) { return rows * (2 + dim); }
constexpr int64_t latent_scratch_floats(int64_t v_dim, int sm_count) {
  return sm_count * latent_part_floats(64, v_dim);
}

// attention/index_choice.cu
inline constexpr int kIndexedTokens = 64;

} // namespace ridge::kernels::cuda
