// The arguments of a matrix product: out = x Wᵀ for many rows of activations.
#pragma once

#include <cstdint>

namespace ridge::kernels::cuda {

// x is f16, [rows, x_stride], rows padded with zeros to a multiple of kGemmColumns and rounded up in number to

inline constexpr int kGemmColumns = 256, kGemmRows = 256;

struct GemmSegment {
  const uint8_t* weights;
  int rows;
  float* out;        // [tokens, rows]
  const float* bias; // [rows] or null
};

struct GemmArgs {
  const uint16_t* x;
  int64_t x_stride; // elements
  const int8_t* exponent;
  int tokens;
  int cols;
  int64_t row_bytes; // of the device layout
  int segments;      // matrices of one format
  GemmSegment segment[3];
  const float* residual; // [tokens, rows of segment 0] or null: added to segment 0's result
};

} // namespace ridge::kernels::cuda
