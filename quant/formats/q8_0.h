// Q8_0: 32 weights in 34 bytes.
//
//   +0     d     binary16 scale
//   +2     qs    32 signed bytes
//
// w = d * q
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

struct Q8_0 {
  static constexpr int kWeights = 32;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  Half d;
  int8_t qs[32];

  RIDGE_HD void unpack(int, Group& out) const {
    for (int i = 0; i < 32; ++i) out.code[i] = qs[i];
    out.scale[0] = out.scale[1] = d;
    out.offset[0] = out.offset[1] = 0.0f;
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int i = 0; i < 32; ++i) qs[i] = in.code[i];
  }
};
static_assert(sizeof(Q8_0) == 34);

} // namespace ridge::quant
