// Q2_K: 256 weights in 84 bytes. Groups of 16.
//
//   +0     scales  one byte per group: low nibble scale, high nibble min
//   +16    qs      2 × 32 bytes, byte l: 2 bits of weights l, l+32, l+64, l+96
//   +80    d       binary16, for the group scales
//   +82    dmin    binary16, for the group mins
//
// w = (d * scale) * q - (dmin * min)
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

struct Q2_K {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 16;
  static constexpr bool kHasOffset = true;

  uint8_t scales[16];
  uint8_t qs[64];
  Half d;
  Half dmin;

  RIDGE_HD void unpack(int g, Group& out) const {
    const uint8_t* q = qs + 32 * (g / 4);
    const int shift = 2 * (g % 4);
    for (int i = 0; i < 32; ++i) out.code[i] = static_cast<int8_t>((q[i] >> shift) & 3);
    for (int s = 0; s < 2; ++s) {
      const int scale_min = scales[2 * g + s];
      out.scale[s] = d * static_cast<float>(scale_min & 15);
      out.offset[s] = -(dmin * static_cast<float>(scale_min >> 4));
    }
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    dmin.bits = core::f16_from_f32(in.m);
    for (int s = 0; s < 16; ++s)
      scales[s] = static_cast<uint8_t>(static_cast<int>(in.scale[s]) | static_cast<int>(in.min[s]) << 4);
    for (int i = 0; i < 64; ++i) {
      const int8_t* code = in.code + 128 * (i / 32) + i % 32;
      qs[i] = static_cast<uint8_t>(code[0] | code[32] << 2 | code[64] << 4 | code[96] << 6);
    }
  }
};
static_assert(sizeof(Q2_K) == 84);

} // namespace ridge::quant
