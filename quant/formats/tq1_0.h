// TQ1_0: 256 ternary weights in 54 bytes: five per byte (3^5 = 243 < 256).
//
//   +0     qs    48 bytes: bytes 0-31 hold five rows of 32 (weights 0-159), bytes 32-47 five rows of 16 (160-239)
//   +48    qh    4 bytes, four rows of 4: weights 240-255
//   +52    d     binary16 scale
//
// A byte is the base-3 number as a fraction of 3^5, scaled to 256 and rounded up. Multiplication yields digits from the
// top: digit n is the integer part of 3 * frac(byte / 256 * 3^n).
//
// w = d * (digit - 1)
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

struct TQ1_0 {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  uint8_t qs[48];
  uint8_t qh[4];
  Half d;

  RIDGE_HD static void unpack_row(const uint8_t* bytes, int count, int n, int8_t* code) {
    const int power = (0x511b090301ull >> (8 * n)) & 0xff;
    RIDGE_VECTOR_LOOP
    for (int i = 0; i < count; ++i) {
      const int fraction = (bytes[i] * power) & 0xff;
      code[i] = static_cast<int8_t>(((fraction * 3) >> 8) - 1);
    }
  }

  RIDGE_HD void unpack(int g, Group& out) const {
    if (g < 5) {
      unpack_row(qs, 32, g, out.code);
    } else {
      unpack_row(qs + 32, 16, 2 * (g - 5), out.code);
      if (g < 7)
        unpack_row(qs + 32, 16, 2 * (g - 5) + 1, out.code + 16);
      else
        for (int n = 0; n < 4; ++n) unpack_row(qh, 4, n, out.code + 16 + 4 * n);
    }
    out.scale[0] = out.scale[1] = d;
    out.offset[0] = out.offset[1] = 0.0f;
  }

  // With 4 rows the last digit is 0.
  RIDGE_HD static uint8_t pack_byte(const int8_t* code, int stride, int rows) {
    int number = 0;
    for (int n = 0; n < 5; ++n) number = number * 3 + (n < rows ? code[n * stride] + 1 : 0);
    return static_cast<uint8_t>((number * 256 + 242) / 243);
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int i = 0; i < 32; ++i) qs[i] = pack_byte(in.code + i, 32, 5);
    for (int i = 0; i < 16; ++i) qs[32 + i] = pack_byte(in.code + 160 + i, 16, 5);
    for (int i = 0; i < 4; ++i) qh[i] = pack_byte(in.code + 240 + i, 4, 4);
  }
};
static_assert(sizeof(TQ1_0) == 54);

} // namespace ridge::quant
