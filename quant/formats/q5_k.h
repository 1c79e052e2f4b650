// Q5_K: 256 weights in 176 bytes. Q4_K with a fifth bit.
//
//   +0     d       binary16, for the group scales
//   +2     dmin    binary16, for the group mins
//   +4     scales  8 × (6-bit scale, 6-bit min) in 12 bytes, as in Q4_K
//   +16    qh      bit g of byte l is the top bit of weight 32g + l
//   +48    qs      4 × 32 bytes: low nibbles: group 2j, high: 2j+1
//
// w = (d * scale) * q - (dmin * min)
#pragma once

#include "quant/formats/q4_k.h"

namespace ridge::quant {

struct Q5_K {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = true;

  Half d;
  Half dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];

  RIDGE_HD void unpack(int g, Group& out) const {
    const uint8_t* q = qs + 32 * (g / 2);
    const int shift = 4 * (g & 1);
    for (int i = 0; i < 32; ++i) out.code[i] = static_cast<int8_t>(((q[i] >> shift) & 15) | (((qh[i] >> g) & 1) << 4));
    unpack_k_scale(*this, g, out);
  }

  RIDGE_HD void pack(const Parts& in) {
    pack_k_nibbles(in, *this);
    for (int i = 0; i < 32; ++i) {
      int bits = 0;
      for (int g = 0; g < 8; ++g) bits |= (in.code[32 * g + i] >> 4) << g;
      qh[i] = static_cast<uint8_t>(bits);
    }
  }
};
static_assert(sizeof(Q5_K) == 176);

} // namespace ridge::quant
