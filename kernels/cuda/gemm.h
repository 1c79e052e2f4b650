// The arguments of a matrix product: out = x Wᵀ for many rows of activations.
#pragma once

#include <cstdint>

namespace ridge::kernels::cuda {

// x is f16, [rows, x_stride], rows padded with zeros to a multiple of kGemmColumns and rounded up in number to
// kGemmRows; row i stands for x[i] · 2^exponent[i] (so that no activation is out of f16's range).
inline constexpr int kGemmColumns = 256, kGemmRows = 128;

struct GemmArgs {
  const uint16_t* x;
  int64_t x_stride; // elements
  const int8_t* exponent;
  int tokens;
  int cols;
  const uint8_t* weights;
  int64_t row_bytes; // of the device layout
  int rows;
  float* out; // [tokens, rows]
  const float* bias;     // [rows] or null
  const float* residual; // [tokens, rows] or null; may be `out`
};

} // namespace ridge::kernels::cuda
