// MXFP4: 32 weights in 17 bytes. OCP microscaling: E2M1 floats with a shared power of two.
//
//   +0     e     E8M0: the scale is 2^(e - 127)
//   +1     qs    low nibbles: weights 0-15, high: 16-31; sign and magnitude,
//                magnitudes 0 0.5 1 1.5 2 3 4 6
//
// w = (2^(e - 127) / 2) * (2 * value). e = 255, NaN in the standard, is read as 2^128.
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

// Arithmetic vectorizes, unlike a table.
RIDGE_HD int8_t doubled_e2m1(int nibble) {
  const int magnitude = nibble & 7; // 0 1 2 3 4 5 6 7 -> 0 1 2 3 4 6 8 12
  const int value = magnitude + (magnitude > 4 ? magnitude - 4 : 0) + (magnitude == 7 ? 2 : 0);
  return static_cast<int8_t>(nibble & 8 ? -value : value);
}

RIDGE_HD int e2m1_nibble(int8_t doubled) {
  const int value = doubled < 0 ? -doubled : doubled;
  const int magnitude = value <= 4 ? value : value == 12 ? 7 : value / 2 + 2;
  return magnitude | (doubled < 0 ? 8 : 0);
}

struct MXFP4 {
  static constexpr int kWeights = 32;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  uint8_t e;
  uint8_t qs[16];

  // 2^(e - 128): subnormal for e < 2.
  RIDGE_HD float scale() const {
    return core::f32_from_bits(e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23);
  }

  RIDGE_HD void unpack(int, Group& out) const {
    RIDGE_VECTOR_LOOP
    for (int i = 0; i < 16; ++i) {
      out.code[i] = doubled_e2m1(qs[i] & 15);
      out.code[i + 16] = doubled_e2m1(qs[i] >> 4);
    }
    out.scale[0] = out.scale[1] = scale();
    out.offset[0] = out.offset[1] = 0.0f;
  }

  RIDGE_HD void pack(const Parts& in) {
    const uint32_t bits = core::bits_from_f32(in.scale[0]);
    e = static_cast<uint8_t>(bits < 0x00800000u ? bits >> 22 : (bits >> 23) + 1);
    for (int i = 0; i < 16; ++i)
      qs[i] = static_cast<uint8_t>(e2m1_nibble(in.code[i]) | e2m1_nibble(in.code[i + 16]) << 4);
  }
};
static_assert(sizeof(MXFP4) == 17);

} // namespace ridge::quant
