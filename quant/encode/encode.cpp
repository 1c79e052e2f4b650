#include "quant/encode/encode.h"

#include "core/error.h"
#include "core/target_clones.h"
#include "quant/encode/tiles.h"
#include "quant/formats/bf16.h"
#include "quant/formats/f16.h"
#include "quant/formats/f32.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace ridge::quant {
namespace {

constexpr int64_t kTaskWeights = 1 << 16; // a few milliseconds

bool finite(float value) { return (std::bit_cast<uint32_t>(value) & 0x7fffffffu) < 0x7f800000u; }

// Integers compare like floats; infinity and NaN on top.
RIDGE_CLONES uint32_t largest_magnitude(const float* weights, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(weights[i]) & 0x7fffffffu);
  return largest;
}

template <typename Format>
void round_weights(const float* weights, const float*, int64_t, int64_t, int64_t count, std::byte* out) {
  for (int64_t i = 0; i < count; ++i) {
    const Format rounded = Format::from(weights[i]);
    std::memcpy(out + i * static_cast<int64_t>(sizeof rounded), &rounded, sizeof rounded);
  }
}

EncodeBlocks find_encoder(Type type) {
  if (type == Type::F32) return &round_weights<F32>;
  if (type == Type::F16) return &round_weights<F16>;
  if (type == Type::BF16) return &round_weights<BF16>;
  for (const auto find : {&find_plain_encoder, &find_codebook_encoder, &find_level_encoder})
    if (const EncodeBlocks found = find(type)) return found;
  return nullptr;
}

template <bool kParallel>
void encode(Type type, const float* weights, int64_t rows, int64_t cols, std::span<const float> importance,
            std::byte* out) {
  check_encoding(type, cols, importance);
  const FormatInfo& info = format(type);
  const EncodeBlocks encoder = find_encoder(type);
  const int64_t blocks_per_row = cols / info.block_weights, blocks = rows * blocks_per_row;
  const int64_t step = std::max<int64_t>(1, kTaskWeights / info.block_weights);
  std::atomic<int64_t> not_finite = INT64_MAX;
#pragma omp parallel for schedule(dynamic) if (kParallel)
  for (int64_t first = 0; first < blocks; first += step) {
    const int64_t count = std::min(step, blocks - first);
    const float* from = weights + first * info.block_weights;
    std::byte* to = out + first * info.block_bytes;
    if (const int64_t bad = find_not_finite({from, static_cast<size_t>(count * info.block_weights)}); bad >= 0) {
      const int64_t place = first * info.block_weights + bad;
      for (int64_t least = not_finite; place < least && !not_finite.compare_exchange_weak(least, place);) {
      }
      continue;
    }
    encoder(from, importance.empty() ? nullptr : importance.data(), first, blocks_per_row, count, to);
  }
  if (not_finite != INT64_MAX) throw_not_finite(not_finite / cols, not_finite % cols);
}

} // namespace

int64_t find_not_finite(std::span<const float> weights) {
  if (largest_magnitude(weights.data(), std::ssize(weights)) < 0x7f800000u) return -1;
  return std::ranges::find_if_not(weights, finite) - weights.begin();
}

bool can_encode(Type type) { return find_encoder(type) != nullptr; }

void throw_not_finite(int64_t row, int64_t col) {
  throw_error("row {}, column {}: a weight is NaN or infinite; only finite weights can be encoded", row, col);
}

void check_encoding(Type type, int64_t cols, std::span<const float> importance) {
  const FormatInfo& info = format(type);
  if (!can_encode(type)) throw_error("{} can be read but not written", info.name);
  if (cols % info.block_weights != 0)
    throw_error("rows of {} weights cannot be stored as {}, which has blocks of {}", cols, info.name,
                info.block_weights);
  if (!importance.empty() && static_cast<int64_t>(importance.size()) != cols)
    throw_error("the importance has {} factors for {} columns", importance.size(), cols);
  const auto bad = std::find_if(importance.begin(), importance.end(), [](float f) { return !finite(f) || f < 0.0f; });
  if (bad != importance.end())
    throw_error("column {}: importance {} is not a finite number >= 0", bad - importance.begin(), *bad);
}

void encode_rows(Type type, const float* weights, int64_t rows, int64_t cols, std::span<const float> importance,
                 std::byte* out) {
  encode<false>(type, weights, rows, cols, importance, out);
}

void encode_rows_parallel(Type type, const float* weights, int64_t rows, int64_t cols,
                          std::span<const float> importance, std::byte* out) {
  encode<true>(type, weights, rows, cols, importance, out);
}

} // namespace ridge::quant
