// How products of 17 to 96 rows of activations on Hopper (small_batch/wide_batch.cuh) are cut up.
#pragma once

#include "kernels/cuda/runtime/limits.h"

#include <cstdint>
#include <optional>

namespace ridge::kernels::cuda {

inline constexpr int kMostWideTokens = 96;
inline constexpr int kWideGroups = 4, kWideThreads = kWideGroups * 128; // warpgroups of a block
inline constexpr int kWideRows = 64;                                    // of weights, per warpgroup
inline constexpr int kWideRingBytes = 192 << 10;                        // of shared memory, for activations,
inline constexpr int kWideSharedBytes = kWideRingBytes + 1024;          // and what aligns them
inline constexpr int kWideStaticBytes = 1024;                           // barriers

struct WideCut {
  int ranges = 1;     // of columns, for different blocks; more than one: their sums are added up by another kernel
  int log2_parts = 0; // parts: 1, 2 or 4 warpgroups of a block have the same rows, and a part of a range each
};

// By the least estimated time. row_tiles: of 16 rows; tokens: 32, 64 or 96; next_adds: the conversion of the next
// product's input adds up what ranges leave. Nothing where the chip has too little shared memory.
std::optional<WideCut> cut_wide_batch(const ChipLimits& chip, int64_t row_tiles, int64_t cols, int tokens,
                                      bool next_adds);

} // namespace ridge::kernels::cuda
