// IQ4_XS: a super-block of 256 weights in 136 bytes, 4.25 bits per weight. IQ4_NL's levels with 6-bit scales.
//
//   byte 0     d         binary16, scale of the group scales
//   byte 2     scales_h  upper two bits of the scale of group g, at bit 2g
//   byte 4     scales_l  4 bytes, low four bits: groups 2j (low nibble) and 2j+1 (high nibble)
//   byte 8     qs        8 × 16 bytes: of each 32 weights, low nibbles are the first 16, high nibbles the last 16
//
// w = (d * (scale - 32)) * kIq4Levels[q]
#pragma once

#include "quant/formats/iq4_nl.h"

namespace ridge::quant {

struct IQ4_XS {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  Half d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];

  RIDGE_HD void unpack(int g, Group& out) const {
    const uint8_t* q = qs + 16 * g;
    for (int i = 0; i < 16; ++i) {
      out.code[i] = kIq4Levels[q[i] & 15];
      out.code[i + 16] = kIq4Levels[q[i] >> 4];
    }
    const int scale = ((scales_l[g / 2] >> (4 * (g & 1))) & 15) | (((scales_h >> (2 * g)) & 3) << 4);
    out.scale[0] = out.scale[1] = d * static_cast<float>(scale - 32);
    out.offset[0] = out.offset[1] = 0.0f;
  }
};
static_assert(sizeof(IQ4_XS) == 136);

} // namespace ridge::quant
