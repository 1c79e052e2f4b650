// f32 weights to packed bytes, for every format of quant/formats.def.
//
// An encoder looks for the codes and scales with the least Σ importance * (weight - decoded weight)², block by block.
// The result depends on the weights and the importance alone: it is the same bytes for every number of threads and
// every instruction set.
#pragma once

#include "quant/registry.h"

namespace ridge::quant {

// True for all GGUF types and for NF4 and FP4, which are encoded as bitsandbytes does (without importance).
bool can_encode(Type type);

// weights: [rows, cols] row-major, cols a multiple of the format's block_weights.
// importance: [cols], one factor >= 0 per column, as an importance matrix gives them; empty: all ones. Where all
//   factors of a block are zero, they count as ones.
// out: rows * format(type).row_bytes(cols) bytes.
// Throws an Error that names row and column where a weight or a factor is NaN or infinite, or a factor negative; the
// caller adds the tensor's name. Scales that the format cannot hold (beyond binary16, say) saturate: see check_range.
void encode_rows(Type type, const float* weights, int64_t rows, int64_t cols, std::span<const float> importance,
                 std::byte* out);

// The same bytes, made by all OpenMP threads.
void encode_rows_parallel(Type type, const float* weights, int64_t rows, int64_t cols,
                          std::span<const float> importance, std::byte* out);

// Throws an Error that names row and weight where `packed`, which any encoder made of the weights, stands for others
// because they lie beyond the range of the type: beyond 65504 in F16, or with a scale beyond it. The caller adds the
// tensor's name. What becomes a file is checked.
void check_range(Type type, const float* weights, const std::byte* packed, int64_t rows, int64_t cols);

// The checks of encode_rows, for encoders elsewhere: throws Error where cols or importance do not fit.
void check_encoding(Type type, int64_t cols, std::span<const float> importance);
[[noreturn]] void throw_not_finite(int64_t row, int64_t col);

} // namespace ridge::quant
