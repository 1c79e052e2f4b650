// The arguments of a matrix product: out = x Wᵀ for many rows of activations.
#pragma once

#include "kernels/cuda/runtime/limits.h"

#include <cstdint>

namespace ridge::kernels::cuda {

// x is f16, [rows, x_stride], rows padded with zeros to a multiple of kGemmColumns and rounded up in number to
// kGemmRows (what those hold does not matter); row i stands for x[i] · 2^exponent[i], so that no activation is out of
// f16's range.
inline constexpr int kGemmColumns = 256, kGemmRows = 256;

// Weights are multiplied by two to this on the way to f16, so that small ones keep their precision.
inline constexpr int kWeightExponent = 6;

inline constexpr int kGemmSharedBytes = 72 << 10; // what a block needs; chips with less (sm_75) go without

struct GemmSegment {
  const uint8_t* weights;
  int rows;
  float* out;        // [tokens, rows]
  const float* bias; // [rows], of experts [experts][rows], or null
};

struct GemmArgs {
  const uint16_t* x;
  int64_t x_stride; // elements
  const int8_t* exponent;
  int tokens;
  int cols;
  int64_t row_bytes; // of the device layout
  int segments;      // matrices of one format
  GemmSegment segment[kMostSegments];
  const float* residual; // [tokens, rows of segment 0] or null: added to segment 0's result
};

} // namespace ridge::kernels::cuda
