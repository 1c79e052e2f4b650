// AFFINE8, in memory only: 32 weights in 40 bytes. LLM.int8, GPTQ, and scales beyond binary16.
//
//   +0     d     binary32 scale (SplitFloat)
//   +4     m     binary32 offset, likewise
//   +8     qs    32 signed bytes
//
// w = d * q + m
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

struct AFFINE8 {
  static constexpr int kWeights = 32;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = true;

  SplitFloat d, m;
  int8_t qs[32];

  RIDGE_HD void unpack(int, Group& out) const {
    for (int i = 0; i < 32; ++i) out.code[i] = qs[i];
    out.scale[0] = out.scale[1] = d;
    out.offset[0] = out.offset[1] = m;
  }
};
static_assert(sizeof(AFFINE8) == 40);

} // namespace ridge::quant
