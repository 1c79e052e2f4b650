// FP8_E4M3, in memory only: 64 weights in 68 bytes, 8.5 bits per weight. What FP8 checkpoints run as.
//
//   byte 0     d     binary32 scale, as two halves of its bits, low first
//   byte 4     qs    64 × E4M3 (OCP 8-bit floating point: exponent bias 7, no infinities, ±0x7f is NaN)
//
// w = d * q. An E4M3 number has four significant bits, but over 18 binades: it becomes a 14-bit integer of a unit that
// the largest of 16 weights sets, which is exact for all down to 2^-10 of that one, as two 7-bit codes. A block
// therefore unpacks to twice its weights, as NF4_PARTS' does. NaN is read as 480.
#pragma once

#include "quant/group.h"

namespace ridge::quant {

struct FP8_E4M3 {
  static constexpr int kWeights = 128;
  static constexpr int kScaleWeights = 16;
  static constexpr bool kHasOffset = false;

  uint16_t d[2];
  uint8_t qs[64];

  RIDGE_HD void unpack(int g, Group& out) const {
    const float scale = core::f32_from_bits(d[0] | static_cast<uint32_t>(d[1]) << 16);
    for (int s = 0; s < 2; ++s) {
      const uint8_t* bits = qs + 32 * (g / 2) + 16 * s;
      int largest = 8; // exponent 1: also of subnormals
      for (int i = 0; i < 16; ++i) largest = (bits[i] & 0x7f) > largest ? bits[i] & 0x7f : largest;
      const int top = largest >> 3; // its exponent, 1 … 15
      for (int i = 0; i < 16; ++i) {
        const int field = bits[i] >> 3 & 15, exponent = field > 0 ? field : 1;
        const int significand = (bits[i] & 7) + (field > 0 ? 8 : 0); // in units of 2^(exponent - 10)
        const int down = top - exponent;
        const int number = ((significand << 11 >> down) + 1) >> 1; // in units of 2^(top - 20), at most 15360
        const int high = (number + 64) >> 7, low = number - (high << 7);
        const int code = g % 2 ? low : high;
        out.code[16 * s + i] = static_cast<int8_t>(bits[i] & 0x80 ? -code : code);
      }
      out.scale[s] = scale * core::f32_from_bits(static_cast<uint32_t>(top - (g % 2 ? 20 : 13) + 127) << 23);
      out.offset[s] = 0.0f;
    }
  }
};
static_assert(sizeof(FP8_E4M3) == 68);

} // namespace ridge::quant
