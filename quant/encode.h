// Encodes f32 weights to the formats of quant/formats.def.
//
// Minimizes Σ importance * (weight - decoded weight)² per block. The bytes are the same for every thread count and
// instruction set.
#pragma once

#include "quant/registry.h"

namespace ridge::quant {

// True for all GGUF types and for NF4 and FP4 (encoded like bitsandbytes, without importance).
bool can_encode(Type type);

// weights: [rows, cols] row-major, cols a multiple of block_weights. importance: [cols] factors >= 0; empty or all zero
// in a block: ones. out: rows * format(type).row_bytes(cols) bytes. Throws Error with row and column if a weight or
// factor is NaN or infinite, or a factor negative; the caller adds the tensor's name. Scales beyond the format's range
// saturate: see check_range.
void encode_rows(Type type, const float* weights, int64_t rows, int64_t cols, std::span<const float> importance,
                 std::byte* out);

// The same bytes, with all OpenMP threads.
void encode_rows_parallel(Type type, const float* weights, int64_t rows, int64_t cols,
                          std::span<const float> importance, std::byte* out);

// Throws Error with row and weight if `packed`, encoded from `weights`, saturated: a weight beyond 65504 in F16, or a
// scale beyond the range. The caller adds the tensor's name. Call it for everything written to files.
void check_range(Type type, const float* weights, const std::byte* packed, int64_t rows, int64_t cols);

// The argument checks of encode_rows, for other encoders: throws Error.
void check_encoding(Type type, int64_t cols, std::span<const float> importance);
[[noreturn]] void throw_not_finite(int64_t row, int64_t col);

} // namespace ridge::quant
