// The arguments of a matrix product: out = x Wᵀ for many rows of activations.
#pragma once

#include "core/host_device.h"
#include "kernels/cuda/runtime/limits.h"

#include <cmath>
#include <cstdint>

namespace ridge::kernels::cuda {

// x is f16, [rows, x_stride], rows padded with zeros to a multiple of kGemmColumns and rounded up in number to
// kGemmRows (what those hold does not matter); row i stands for x[i] · 2^exponent[i], so that no activation is out of
// f16's range.
inline constexpr int kGemmColumns = 256, kGemmRows = 256;

// The exponent of a row by its largest value, such that this lies in [512, 1024).
RIDGE_HD int half_exponent(float largest) {
  if (!(largest > 0)) return 0;
  const int exponent = ilogbf(largest) - 9;
  return exponent < -120 ? -120 : exponent > 120 ? 120 : exponent;
}
// Whether f16 has room for a row as it is, and loses nothing of it that counts.
RIDGE_HD bool fits_half(float largest) { return largest == 0 || (largest >= 1.F / 4096 && largest < 60000); }

// Weights are multiplied by two to this on the way to f16, so that small ones keep their precision.
inline constexpr int kWeightExponent = 6;

inline constexpr int kGemmSharedBytes = 40 << 10; // what a block needs

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
