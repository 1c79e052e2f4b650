// FP8_E4M3, in memory only: 64 weights in 68 bytes, 8.5 bits per weight. Holds the weights of FP8 checkpoints.
//
//   byte 0     d     binary32 scale (SplitFloat)
//   byte 4     qs    64 × E4M3 (OCP 8-bit floating point: exponent bias 7, no infinities, ±0x7f is NaN)
//
// w = d * q. An E4M3 number has four significant bits, but spans 18 binades, so there are no integer codes.
#pragma once

#include "quant/group.h"

namespace ridge::quant {

struct FP8_E4M3 {
  static constexpr int kWeights = 64;

  SplitFloat d;
  uint8_t qs[64];

  RIDGE_HD float value(int i) const { return d * core::f32_from_e4m3(qs[i]); }
};
static_assert(sizeof(FP8_E4M3) == 68);

} // namespace ridge::quant
