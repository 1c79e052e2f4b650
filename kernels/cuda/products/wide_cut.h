// Divides small_batch/wide_batch.cuh's work.
#pragma once

#include "kernels/cuda/products/half_layout.h"
#include "kernels/cuda/runtime/limits.h"

#include <cstdint>
#include <optional>

namespace ridge::kernels::cuda {

// Larger tiles need more registers.
constexpr int wide_groups(int tile_tokens) { return tile_tokens > 96 ? 2 : 4; }
inline constexpr int kWideRows = 64; // of weights, per warpgroup
inline constexpr int kWideRingBytes = 192 << 10;
inline constexpr int kWideSharedBytes = kWideRingBytes + 1024;
inline constexpr int kWideStaticBytes = 3072; // barriers, WideTokens
constexpr int wide_slots(int tile_tokens) { return kWideRingBytes / (kWideColumns * tile_tokens * 2); }

struct WideCut {
  int ranges = 1;     // of columns; if > 1, another kernel adds their sums
  int log2_parts = 0; // 1, 2 or 4 warpgroups split a range's columns
};

// The least estimated time. row_tiles: of 16 rows; next_adds: the next conversion adds the ranges. Empty if shared
// memory is too small.
std::optional<WideCut> cut_wide_batch(const ChipLimits& chip, int64_t row_tiles, int64_t cols, int64_t tokens,
                                      bool next_adds);

} // namespace ridge::kernels::cuda
