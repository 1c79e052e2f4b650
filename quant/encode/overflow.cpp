#include "core/error.h"
#include "quant/all_formats.h"
#include "quant/encode/encode.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace ridge::quant {
namespace {

constexpr int64_t kParallelWeights = 1 << 20; // fewer are not worth threads

// Encoders saturate to the largest binary16.
bool is_largest_half(Half half) { return (half.bits & 0x7fff) >= 0x7bff; }

template <typename Format>
bool overflows(const Format& block, const float* weights) {
  if constexpr (std::is_same_v<Format, F16> || std::is_same_v<Format, BF16>) {
    return !std::isfinite(block.value()) && std::isfinite(*weights);
  } else if constexpr (std::is_same_v<Format, IQ1_M>) {
    return std::abs(block.d()) >= 65504;
  } else if constexpr (std::is_same_v<Format, NVFP4>) { // 12 times the largest scale, and rounding
    return std::any_of(weights, weights + Format::kWeights, [](float w) { return std::abs(w) >= 13 * 224; });
  } else {
    bool found = false;
    if constexpr (requires { block.d.bits & 1; }) found |= is_largest_half(block.d);
    if constexpr (requires { block.m.bits & 1; }) found |= is_largest_half(block.m);
    if constexpr (requires { block.dmin.bits & 1; }) found |= is_largest_half(block.dmin);
    return found;
  }
}

template <typename Format>
int64_t find_overflow(const float* weights, const std::byte* packed, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Format block;
    std::memcpy(&block, packed + i * static_cast<int64_t>(sizeof block), sizeof block);
    if (overflows(block, weights + i * Format::kWeights)) return i;
  }
  return -1;
}

int64_t find_overflow(Type type, const float* weights, const std::byte* packed, int64_t count) {
  switch (type) {
#define RIDGE_FORMAT(name, id, weights_per_block, bytes)                                                               \
  case Type::name:                                                                                                     \
    return find_overflow<name>(weights, packed, count);
#include "quant/formats.def"
#undef RIDGE_FORMAT
  }
  return -1;
}

} // namespace

void check_range(Type type, const float* weights, const std::byte* packed, int64_t rows, int64_t cols,
                 int64_t first_row) {
  if (type == Type::F32) return;
  const FormatInfo& info = format(type);
  const int64_t blocks_per_row = cols / info.block_weights, row_bytes = info.row_bytes(cols);
  int64_t block = INT64_MAX;
#pragma omp parallel for schedule(static) reduction(min : block) if (rows * cols > kParallelWeights)
  for (int64_t row = 0; row < rows; ++row)
    if (const int64_t found = find_overflow(type, weights + row * cols, packed + row * row_bytes, blocks_per_row);
        found >= 0)
      block = std::min(block, row * blocks_per_row + found);
  if (block == INT64_MAX) return;
  const float* first = weights + block * info.block_weights;
  const float largest =
      *std::max_element(first, first + info.block_weights, [](float a, float b) { return std::abs(a) < std::abs(b); });
  throw_error("row {}: the weight {} is outside the range of {}; use BF16 or F32", first_row + block / blocks_per_row,
              largest, info.name);
}

} // namespace ridge::quant
