// NVFP4_SCALED, in memory only: 64 weights in 40 bytes. NVFP4 and the matrix's scale (tensor NAME.scale).
//
//   +0     m      binary32 scale of the matrix (SplitFloat)
//   +4     block  NVFP4
//
// w = m * (d / 2) * (2 * value)
#pragma once

#include "quant/formats/nvfp4.h"

namespace ridge::quant {

struct NVFP4_SCALED {
  static constexpr int kWeights = 64;
  static constexpr int kScaleWeights = 16;
  static constexpr bool kHasOffset = false;

  SplitFloat m;
  NVFP4 block;

  RIDGE_HD void unpack(int g, Group& out) const {
    block.unpack(g, out);
    for (int s = 0; s < 2; ++s) out.scale[s] = m * out.scale[s];
  }
};
static_assert(sizeof(NVFP4_SCALED) == 40);

} // namespace ridge::quant
