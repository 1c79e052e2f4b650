// The arguments of out = x Wᵀ.
#pragma once

#include "core/host_device.h"
#include "kernels/cuda/runtime/limits.h"

#include <cmath>
#include <cstdint>

namespace ridge::kernels::cuda {

// x is f16, [rows, x_stride], columns zero-padded to kGemmColumns, rows padded to kGemmRows with anything; row i means
// x[i] · 2^exponent[i], to stay in f16's range.
inline constexpr int kGemmColumns = 256, kGemmRows = 256;

// Scales the maximum into [512, 1024).
RIDGE_HD int half_exponent(float largest) {
  if (!(largest > 0)) return 0;
  const int exponent = ilogbf(largest) - 9;
  return exponent < -120 ? -120 : exponent > 120 ? 120 : exponent;
}
// Whether unscaled f16 loses nothing relevant.
RIDGE_HD bool fits_half(float largest) { return largest == 0 || (largest >= 1.F / 4096 && largest < 60000); }

// Weights are scaled by 2^6 in f16 to keep small ones precise.
inline constexpr int kWeightExponent = 6;

inline constexpr int kGemmSharedBytes = 40 << 10;

struct GemmSegment {
  const uint8_t* weights;
  int rows;
  float* out;        // [tokens, rows]
  const float* bias; // [rows], for experts [experts][rows], or null
};

struct GemmArgs {
  const uint16_t* x;
  int64_t x_stride;
  const int8_t* exponent;
  int tokens;
  int cols;
  int64_t row_bytes; // of the device layout
  int segments;      // of one format
  GemmSegment segment[kMaxSegments];
  const float* residual; // [tokens, rows of segment 0] or null
};

} // namespace ridge::kernels::cuda
