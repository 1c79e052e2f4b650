// How products of 17 to 512 rows of activations on Hopper (small_batch/wide_batch.cuh) are cut up.
#pragma once

#include "kernels/cuda/products/half_layout.h"
#include "kernels/cuda/runtime/limits.h"

#include <cstdint>
#include <optional>

namespace ridge::kernels::cuda {

// Warpgroups of a block. With more tokens of a tile they need more registers.
constexpr int wide_groups(int tile_tokens) { return tile_tokens > 96 ? 2 : 4; }
inline constexpr int kWideRows = 64;                           // of weights, per warpgroup
inline constexpr int kWideRingBytes = 192 << 10;               // of shared memory, for activations,
inline constexpr int kWideSharedBytes = kWideRingBytes + 1024; // and what aligns them
inline constexpr int kWideStaticBytes = 3072;                  // barriers, WideTokens
constexpr int wide_slots(int tile_tokens) { return kWideRingBytes / (kWideColumns * tile_tokens * 2); } // of all rings

struct WideCut {
  int ranges = 1;     // of columns, for different blocks; more than one: their sums are added up by another kernel
  int log2_parts = 0; // parts: 1, 2 or 4 warpgroups of a block have the same rows, and a part of a range each
};

// By the least estimated time. row_tiles: of 16 rows; tokens: of activations; next_adds: the conversion of the next
// product's input adds up what ranges leave. Nothing where the chip has too little shared memory.
std::optional<WideCut> cut_wide_batch(const ChipLimits& chip, int64_t row_tiles, int64_t cols, int64_t tokens,
                                      bool next_adds);

} // namespace ridge::kernels::cuda
