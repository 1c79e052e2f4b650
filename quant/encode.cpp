#include "quant/encode.h"

#include "core/error.h"
#include "core/half.h"
#include "quant/encode/tiles.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ridge::quant {
namespace {

constexpr int64_t kTaskWeights = 1 << 16; // what a thread takes at a time: some milliseconds of work

// Throws where a number is NaN or infinite, or negative where it must not be.
void check(const float* values, int64_t rows, int64_t cols, const char* what, bool negative_allowed) {
  const uint32_t mask = negative_allowed ? 0x7fffffffu : 0xffffffffu;
  for (int64_t row = 0; row < rows; ++row) {
    const float* v = values + row * cols;
    uint32_t largest = 0; // as integers, magnitudes compare like floats, with infinity, NaN and the signed above all
    for (int64_t i = 0; i < cols; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(v[i] + 0.0f) & mask);
    if (largest < 0x7f800000u) continue;
    const int64_t at =
        std::find_if(v, v + cols, [&](float a) { return (std::bit_cast<uint32_t>(a + 0.0f) & mask) >= 0x7f800000u; }) -
        v;
    throw_error("row {}, column {}: {} {} cannot be encoded; it must be finite{}", row, at, what, v[at],
                negative_allowed ? "" : " and not negative");
  }
}

void encode_float_blocks(Type type, const float* weights, int64_t count, std::byte* out) {
  if (type == Type::F32) {
    std::memcpy(out, weights, 4 * static_cast<size_t>(count));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = type == Type::F16 ? core::f16_from_f32(weights[i]) : core::bf16_from_f32(weights[i]);
    std::memcpy(out + 2 * i, &bits, 2);
  }
}

EncodeBlocks find_encoder(Type type) {
  const EncodeBlocks plain = find_plain_encoder(type);
  return plain ? plain : find_codebook_encoder(type);
}

template <bool kParallel>
void encode(Type type, const float* weights, int64_t rows, int64_t cols, std::span<const float> importance,
            std::byte* out) {
  const FormatInfo& info = format(type);
  if (cols % info.block_weights != 0)
    throw_error("rows of {} weights cannot be {}, which has blocks of {}", cols, info.name, info.block_weights);
  if (!importance.empty() && static_cast<int64_t>(importance.size()) != cols)
    throw_error("importance has {} factors for {} columns", importance.size(), cols);
  check(importance.data(), importance.empty() ? 0 : 1, cols, "importance", false);
  check(weights, rows, cols, "weight", true);

  const EncodeBlocks encoder = find_encoder(type);
  const int64_t blocks_per_row = cols / info.block_weights, blocks = rows * blocks_per_row;
  const int64_t step = std::max<int64_t>(1, kTaskWeights / info.block_weights);
#pragma omp parallel for schedule(dynamic) if (kParallel)
  for (int64_t first = 0; first < blocks; first += step) {
    const int64_t count = std::min(step, blocks - first);
    const float* from = weights + first * info.block_weights;
    std::byte* to = out + first * info.block_bytes;
    if (encoder)
      encoder(from, importance.empty() ? nullptr : importance.data(), first, blocks_per_row, count, to);
    else
      encode_float_blocks(type, from, count, to);
  }
}

} // namespace

bool can_encode(Type type) { return !format(type).packed || find_encoder(type); }

void encode_rows(Type type, const float* weights, int64_t rows, int64_t cols, std::span<const float> importance,
                 std::byte* out) {
  encode<false>(type, weights, rows, cols, importance, out);
}

void encode_rows_parallel(Type type, const float* weights, int64_t rows, int64_t cols,
                          std::span<const float> importance, std::byte* out) {
  encode<true>(type, weights, rows, cols, importance, out);
}

} // namespace ridge::quant
