// IQ4_NL: 32 weights in 18 bytes. Levels are dense around zero.
//
//   +0     d     binary16 scale
//   +2     qs    low nibbles: weights 0-15, high: 16-31
//
// w = d * kIq4Levels[q]
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

RIDGE_TABLE int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

RIDGE_HD int iq4_index(int8_t level) {
  int index = 0;
  for (int i = 0; i < 15; ++i) index += level > kIq4Levels[i];
  return index;
}

struct IQ4_NL {
  static constexpr int kWeights = 32;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  Half d;
  uint8_t qs[16];

  RIDGE_HD void unpack(int, Group& out) const {
    for (int i = 0; i < 16; ++i) {
      out.code[i] = kIq4Levels[qs[i] & 15];
      out.code[i + 16] = kIq4Levels[qs[i] >> 4];
    }
    out.scale[0] = out.scale[1] = d;
    out.offset[0] = out.offset[1] = 0.0f;
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int i = 0; i < 16; ++i) qs[i] = static_cast<uint8_t>(iq4_index(in.code[i]) | iq4_index(in.code[i + 16]) << 4);
  }
};
static_assert(sizeof(IQ4_NL) == 18);

} // namespace ridge::quant
