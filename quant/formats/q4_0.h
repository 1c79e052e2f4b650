// Q4_0: 32 weights in 18 bytes.
//
//   +0     d     binary16 scale
//   +2     qs    low nibbles: weights 0-15, high: 16-31
//
// w = d * (q - 8)
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

struct Q4_0 {
  static constexpr int kWeights = 32;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  Half d;
  uint8_t qs[16];

  RIDGE_HD void unpack(int, Group& out) const {
    RIDGE_VECTOR_LOOP
    for (int i = 0; i < 16; ++i) {
      out.code[i] = static_cast<int8_t>((qs[i] & 15) - 8);
      out.code[i + 16] = static_cast<int8_t>((qs[i] >> 4) - 8);
    }
    out.scale[0] = out.scale[1] = d;
    out.offset[0] = out.offset[1] = 0.0f;
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int i = 0; i < 16; ++i) qs[i] = static_cast<uint8_t>((in.code[i] + 8) | (in.code[i + 16] + 8) << 4);
  }
};
static_assert(sizeof(Q4_0) == 18);

} // namespace ridge::quant
