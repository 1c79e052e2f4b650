// IQ4_XS: 256 weights in 136 bytes. IQ4_NL with 6-bit scales.
//
//   +0     d         binary16, for the group scales
//   +2     scales_h  upper two bits of the scale of group g, at bit 2g
//   +4     scales_l  4 bytes, low four bits: groups 2j (low nibble) and 2j+1 (high nibble)
//   +8     qs        8 × 16 bytes: per 32 weights, low nibbles first
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

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    scales_h = 0;
    for (int g = 0; g < 8; ++g) {
      const int scale = static_cast<int>(in.scale[g]) + 32;
      scales_l[g / 2] = static_cast<uint8_t>(g & 1 ? scales_l[g / 2] | (scale & 15) << 4 : scale & 15);
      scales_h = static_cast<uint16_t>(scales_h | (scale >> 4) << (2 * g));
      for (int i = 0; i < 16; ++i) {
        const int8_t* code = in.code + 32 * g + i;
        qs[16 * g + i] = static_cast<uint8_t>(iq4_index(code[0]) | iq4_index(code[16]) << 4);
      }
    }
  }
};
static_assert(sizeof(IQ4_XS) == 136);

} // namespace ridge::quant
