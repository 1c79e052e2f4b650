// TQ2_0: 256 ternary weights in 66 bytes.
//
//   +0     qs    2 × 32 bytes, byte l: 2 bits of weights l, l+32, l+64, l+96
//   +64    d     binary16 scale
//
// w = d * (q - 1). Encoders do not write code 3.
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

struct TQ2_0 {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  uint8_t qs[64];
  Half d;

  RIDGE_HD void unpack(int g, Group& out) const {
    const uint8_t* q = qs + 32 * (g / 4);
    const int shift = 2 * (g % 4);
    for (int i = 0; i < 32; ++i) out.code[i] = static_cast<int8_t>(((q[i] >> shift) & 3) - 1);
    out.scale[0] = out.scale[1] = d;
    out.offset[0] = out.offset[1] = 0.0f;
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int i = 0; i < 64; ++i) {
      int bits = 0;
      for (int j = 0; j < 4; ++j) bits |= (in.code[128 * (i / 32) + i % 32 + 32 * j] + 1) << (2 * j);
      qs[i] = static_cast<uint8_t>(bits);
    }
  }
};
static_assert(sizeof(TQ2_0) == 66);

} // namespace ridge::quant
