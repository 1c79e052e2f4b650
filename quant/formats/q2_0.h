// Q2_0: 64 weights in 18 bytes.
//
//   +0     d     binary16 scale
//   +2     qs    bits 2k and 2k+1 of byte b are weight 4b + k
//
// w = d * (q - 1): -d, 0, d, 2d
#pragma once

#include "quant/formats/bits.h"
#include "quant/formats/group.h"

namespace ridge::quant {

struct Q2_0 {
  static constexpr int kWeights = 64;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  Half d;
  uint8_t qs[16];

  RIDGE_HD void unpack(int g, Group& out) const {
    const uint8_t* q = qs + 8 * g;
    for (int i = 0; i < 4; ++i) store8(out.code + 8 * i, spread_2_bits(q[2 * i], q[2 * i + 1]));
    for (int i = 0; i < 32; ++i) out.code[i] = static_cast<int8_t>(out.code[i] - 1);
    out.scale[0] = out.scale[1] = d;
    out.offset[0] = out.offset[1] = 0.0f;
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int i = 0; i < 16; ++i) {
      int bits = 0;
      for (int j = 0; j < 4; ++j) bits |= (in.code[4 * i + j] + 1) << (2 * j);
      qs[i] = static_cast<uint8_t>(bits);
    }
  }
};
static_assert(sizeof(Q2_0) == 18);

} // namespace ridge::quant
