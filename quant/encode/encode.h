// Encodes f32 weights, minimizing Σ importance * (weight - decoded)² per block. The bytes do not depend on thread count
// or instruction set.
#pragma once

#include "quant/registry.h"

namespace ridge::quant {

// All GGUF types, NF4 and FP4 (like bitsandbytes, without importance).
bool can_encode(Type type);

// weights: [rows, cols], cols a multiple of block_weights. importance: [cols] >= 0; empty, or all zero in a block:
// ones. out: rows * row_bytes(cols) bytes. Throws Error with row and column for non-finite weights or factors and
// negative factors; the caller adds the tensor's name. Scales out of range saturate: see check_range.
void encode_rows(Type type, const float* weights, int64_t rows, int64_t cols, std::span<const float> importance,
                 std::byte* out);

// Uses all OpenMP threads.
void encode_rows_parallel(Type type, const float* weights, int64_t rows, int64_t cols,
                          std::span<const float> importance, std::byte* out);

// Throws Error with row and weight if `packed` saturated: a weight beyond 65504 in F16, or a scale out of range. The
// caller adds the tensor's name. Rows count from first_row. Files are always checked.
void check_range(Type type, const float* weights, const std::byte* packed, int64_t rows, int64_t cols,
                 int64_t first_row = 0);

// The checks of encode_rows, for other encoders: throws Error.
void check_encoding(Type type, int64_t cols, std::span<const float> importance);
// -1: all are.
int64_t find_not_finite(std::span<const float> weights);
[[noreturn]] void throw_not_finite(int64_t row, int64_t col);

} // namespace ridge::quant
