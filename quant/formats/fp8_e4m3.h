// FP8_E4M3, in memory only: 64 weights in 68 bytes.
//
//   +0     d     binary32 scale (SplitFloat)
//   +4     qs    64 × E4M3 (OCP 8-bit floating point: exponent bias 7, no infinities, ±0x7f is NaN)
//
// w = d * q. 18 binades: no integer codes.
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

struct FP8_E4M3 {
  static constexpr int kWeights = 64;

  SplitFloat d;
  uint8_t qs[64];

  RIDGE_HD float value(int i) const { return d * core::f32_from_e4m3(qs[i]); }
};
static_assert(sizeof(FP8_E4M3) == 68);

} // namespace ridge::quant
