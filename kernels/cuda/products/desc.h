// A product without pointers: all that its division among blocks depends on (cuts.h).
#pragma once

#include "core/host_device/round_up.h"
#include "kernels/cuda/runtime/limits.h"
#include "quant/registry.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>

namespace ridge::kernels::cuda {

inline constexpr int kTileGroups = 32;
constexpr int row_block_rows(int tile_bytes) { return tile_bytes <= 340 ? 8 : tile_bytes <= 900 ? 4 : 2; }

// A format's device layout (layout/layout.cuh) in numbers, known without CUDA.
struct FormatNumbers {
  quant::Type type = quant::Type::F32;
  int block_weights = 1, block_bytes = 4; // in files
  bool packed = false;
  int group_weights = 0, tile_bytes = 0;
  int lut_bytes = 0, group_bytes = 0; // matvec's table; its activations of a group
  bool dots = false, bytes = false;   // has expert_dots.cuh's and integer_product.cuh's kernels

  constexpr int64_t groups_of(int64_t cols) const { return (cols + group_weights - 1) / group_weights; }
  constexpr int64_t tiles_of(int64_t cols) const { return (groups_of(cols) + kTileGroups - 1) / kTileGroups; }
  constexpr bool is_whole(int64_t cols) const { return cols % (kTileGroups * group_weights) == 0; }
  constexpr int64_t payload(int64_t groups) const { return groups * group_weights * block_bytes / block_weights; }
  // The file's, rounded up to 16 per warp tile.
  constexpr int64_t row_bytes(int64_t cols) const {
    const int64_t groups = groups_of(cols);
    return groups / kTileGroups * tile_bytes + core::round_up(payload(groups % kTileGroups), 16);
  }
};

constexpr FormatNumbers format_numbers(quant::Type type, int block_weights, int block_bytes) {
  using enum quant::Type;
  const auto is_one_of = [&](auto... types) { return ((type == types) || ...); };
  const bool packed = !is_one_of(F32, F16, BF16, NF4, FP4, FP8_E4M3);
  FormatNumbers n{.type = type, .block_weights = block_weights, .block_bytes = block_bytes, .packed = packed};
  n.group_weights = packed ? 32 : type == F32 ? 8 : 16;
  n.tile_bytes = static_cast<int>(core::round_up(n.payload(kTileGroups), 16));
  n.lut_bytes = is_one_of(IQ1_S, IQ1_M, IQ2_S, IQ3_S)           ? 64 << 10
                : is_one_of(IQ2_XXS, IQ2_XS, IQ3_XXS, NF4, FP4) ? 32 << 10
                : type == TQ1_0                                 ? 31104
                                                                : 0;
  const bool low_parts = 8 * block_bytes >= 2 * block_weights,
             no_sums = is_one_of(Q8_0, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ4_NL, IQ4_XS, TQ1_0);
  n.group_bytes = !packed ? n.group_weights * 4 : type == Q1_0 ? 33 : (low_parts ? 64 : 32) + (no_sums ? 4 : 20);
  n.dots = packed && type != IQ1_M; // all others' products are integer dot products of codes alone
  n.bytes = packed && type != Q2_K; // which has two offsets per group
  return n;
}
constexpr FormatNumbers format_numbers(quant::Type type) {
  switch (type) {
#define RIDGE_FORMAT(name, id, weights, bytes)                                                                         \
  case quant::Type::name:                                                                                              \
    return format_numbers(type, weights, bytes);
#include "quant/formats.def"
#undef RIDGE_FORMAT
  }
  throw std::logic_error("CUDA: a product of an unknown weight type");
}

constexpr int64_t padded_rank(int64_t rank) { return core::round_up(rank, 8); } // rows of 16 bytes

struct ProductDesc {
  FormatNumbers format;
  int64_t tokens = 0; // rows of x, or slots of experts
  int64_t cols = 0;
  int parts = 0;
  std::array<int64_t, kMaxSegments> rows = {};
  std::array<int64_t, kMaxSegments> ranks = {}; // of LoRA adapters in the product's kernel
  bool gated = false;                           // parts are gate and up
  bool experts = false;                         // slots choose matrices
  bool one_matrix = true;                       // of each part, for all tokens and slots
  bool residual = false;

  // A tile has 16 rows of the result, or 8 gates and 8 ups.
  int row_tiles() const {
    int64_t tiles = 0;
    for (int i = 0; i < (gated ? 1 : parts); ++i) tiles += gated ? (rows[i] + 7) / 8 : (rows[i] + 15) / 16;
    return static_cast<int>(tiles);
  }
  // The result's (layout.cuh).
  int row_blocks() const {
    const int of_block = row_block_rows(format.tile_bytes);
    int64_t blocks = 0;
    for (int i = 0; i < (gated ? 1 : parts); ++i) blocks += (rows[i] + of_block - 1) / of_block;
    return static_cast<int>(blocks);
  }
  int64_t all_rows() const {
    int64_t all = 0;
    for (int i = 0; i < parts; ++i) all += rows[i];
    return all;
  }
  bool adapted() const { return padded_ranks() > 0; }
  // Rows of A, those of one part behind another's.
  int64_t padded_ranks() const {
    int64_t all = 0;
    for (const int64_t rank : ranks) all += padded_rank(rank);
    return all;
  }
  // Columns of B beside a row of the result: a gate's, then up's.
  int64_t adapter_columns() const { return gated ? padded_ranks() : padded_rank(*std::ranges::max_element(ranks)); }
};

} // namespace ridge::kernels::cuda
