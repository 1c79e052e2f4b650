// AFFINE4, in memory only: 64 weights in 38 bytes. AWQ and GPTQ, up to four bits, groups of at least 32.
//
//   +0     d     2 × binary16: the scales of weights 0-31 and 32-63
//   +4     z     2 × int8: their zeros
//   +6     qs    2 × 16 bytes: per 32 weights, low nibbles first
//
// w = d * (q - z). Zeros lie in -111 … 112: q - z fits a code.
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

struct AFFINE4 {
  static constexpr int kWeights = 64;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  Half d[2];
  int8_t z[2];
  uint8_t qs[32];

  RIDGE_HD int zero(int g) const { return z[g] < -111 ? -111 : z[g] > 112 ? 112 : z[g]; }

  RIDGE_HD void unpack(int g, Group& out) const {
    const int zero = this->zero(g);
    RIDGE_VECTOR_LOOP
    for (int i = 0; i < 16; ++i) {
      out.code[i] = static_cast<int8_t>((qs[16 * g + i] & 15) - zero);
      out.code[i + 16] = static_cast<int8_t>((qs[16 * g + i] >> 4) - zero);
    }
    out.scale[0] = out.scale[1] = d[g];
    out.offset[0] = out.offset[1] = 0.0f;
  }
};
static_assert(sizeof(AFFINE4) == 38);

} // namespace ridge::quant
