// Q5_0: 32 weights in 22 bytes.
//
//   +0     d     binary16 scale
//   +2     qh    top bits, bit i for weight i
//   +6     qs    low nibbles: weights 0-15, high: 16-31
//
// w = d * (q - 16)
#pragma once

#include "quant/formats/bits.h"
#include "quant/formats/group.h"

namespace ridge::quant {

// Also for Q5_1.
RIDGE_HD void unpack_5_bits(const uint8_t* qh, const uint8_t* qs, int zero, int8_t* code) {
  int8_t high[32];
  for (int i = 0; i < 4; ++i) store8(high + 8 * i, byte_mask(qh[i]) & kEachByte * 16);
  RIDGE_VECTOR_LOOP
  for (int i = 0; i < 16; ++i) {
    code[i] = static_cast<int8_t>((high[i] | (qs[i] & 15)) - zero);
    code[i + 16] = static_cast<int8_t>((high[i + 16] | (qs[i] >> 4)) - zero);
  }
}
RIDGE_HD void pack_5_bits(const int8_t* code, int zero, uint8_t* qh, uint8_t* qs) {
  for (int i = 0; i < 4; ++i) qh[i] = 0;
  for (int i = 0; i < 32; ++i) qh[i / 8] = static_cast<uint8_t>(qh[i / 8] | ((code[i] + zero) >> 4) << i % 8);
  for (int i = 0; i < 16; ++i)
    qs[i] = static_cast<uint8_t>(((code[i] + zero) & 15) | ((code[i + 16] + zero) & 15) << 4);
}

struct Q5_0 {
  static constexpr int kWeights = 32;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  Half d;
  uint8_t qh[4];
  uint8_t qs[16];

  RIDGE_HD void unpack(int, Group& out) const {
    unpack_5_bits(qh, qs, 16, out.code);
    out.scale[0] = out.scale[1] = d;
    out.offset[0] = out.offset[1] = 0.0f;
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    pack_5_bits(in.code, 16, qh, qs);
  }
};
static_assert(sizeof(Q5_0) == 22);

} // namespace ridge::quant
