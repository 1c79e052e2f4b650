// Q5_1: 32 weights in 24 bytes.
//
//   +0     d     binary16 scale
//   +2     m     binary16 offset
//   +4     qh    top bits, bit i for weight i
//   +8     qs    low nibbles: weights 0-15, high: 16-31
//
// w = d * q + m
#pragma once

#include "quant/formats/q5_0.h"

namespace ridge::quant {

struct Q5_1 {
  static constexpr int kWeights = 32;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = true;

  Half d;
  Half m;
  uint8_t qh[4];
  uint8_t qs[16];

  RIDGE_HD void unpack(int, Group& out) const {
    unpack_5_bits(qh, qs, 0, out.code);
    out.scale[0] = out.scale[1] = d;
    out.offset[0] = out.offset[1] = m;
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    m.bits = core::f16_from_f32(in.m);
    pack_5_bits(in.code, 0, qh, qs);
  }
};
static_assert(sizeof(Q5_1) == 24);

} // namespace ridge::quant
