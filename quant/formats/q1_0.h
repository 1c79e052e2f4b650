// Q1_0: 128 weights in 18 bytes.
//
//   +0     d     binary16 scale
//   +2     qs    128 bits, bit i % 8 of byte i / 8 is weight i: 1 is +d, 0 is -d
#pragma once

#include "quant/formats/bits.h"
#include "quant/formats/group.h"

namespace ridge::quant {

struct Q1_0 {
  static constexpr int kWeights = 128;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  Half d;
  uint8_t qs[16];

  RIDGE_HD void unpack(int g, Group& out) const {
    for (int i = 0; i < 4; ++i) store8(out.code + 8 * i, ~byte_mask(qs[4 * g + i]) | kEachByte); // 0x00 | 1, 0xff | 1
    out.scale[0] = out.scale[1] = d;
    out.offset[0] = out.offset[1] = 0.0f;
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int i = 0; i < 16; ++i) {
      int bits = 0;
      for (int j = 0; j < 8; ++j) bits |= (in.code[8 * i + j] > 0) << j;
      qs[i] = static_cast<uint8_t>(bits);
    }
  }
};
static_assert(sizeof(Q1_0) == 18);

} // namespace ridge::quant
