#include "quant/encode.h"

#include "core/error.h"
#include "core/half.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ridge::quant {
namespace {

void check_finite(const float* weights, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* w = weights + row * cols;
    uint32_t largest = 0; // as integers, magnitudes compare like floats, and infinity and NaN above all
    for (int64_t i = 0; i < cols; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(w[i]) & 0x7fffffffu);
    if (largest < 0x7f800000u) continue;
    const int64_t at = std::find_if(w, w + cols, [](float v) { return !(v - v == 0.0f); }) - w;
    throw_error("row {}, column {}: weight {} cannot be encoded; weights must be finite", row, at, w[at]);
  }
}

void encode_floats(Type type, const float* weights, int64_t count, std::byte* out) {
  if (type == Type::F32) {
    std::memcpy(out, weights, 4 * static_cast<size_t>(count));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = type == Type::F16 ? core::f16_from_f32(weights[i]) : core::bf16_from_f32(weights[i]);
    std::memcpy(out + 2 * i, &bits, 2);
  }
}

} // namespace

bool can_encode(Type type) { return !format(type).packed; }

void encode_rows(Type type, const float* weights, int64_t rows, int64_t cols, std::span<const float>, std::byte* out) {
  check_finite(weights, rows, cols);
  encode_floats(type, weights, rows * cols, out);
}

void encode_rows_parallel(Type type, const float* weights, int64_t rows, int64_t cols,
                          std::span<const float> importance, std::byte* out) {
  encode_rows(type, weights, rows, cols, importance, out);
}

} // namespace ridge::quant
