// FP8_E4M3, in memory only: 64 weights in 68 bytes, 8.5 bits per weight. What FP8 checkpoints run as.
//
//   byte 0     d     binary32 scale, as two halves of its bits, low first
//   byte 4     qs    64 × E4M3 (OCP 8-bit floating point: exponent bias 7, no infinities, ±0x7f is NaN)
//
// w = d * q. An E4M3 number has four significant bits but ranges over 18: `values` gives the weights themselves,
// `unpack` 7-bit integers of a unit that the largest of 16 weights sets. Weights of up to a sixteenth of that one are
// rounded to the unit (relative MSE about 4e-6 for Gaussian weights, a twentieth of what 8-bit activations cost).
#pragma once

#include "quant/group.h"

namespace ridge::quant {

struct FP8_E4M3 {
  static constexpr int kWeights = 64;
  static constexpr int kScaleWeights = 16;
  static constexpr bool kHasOffset = false;

  uint16_t d[2];
  uint8_t qs[64];

  RIDGE_HD float scale() const { return core::f32_from_bits(d[0] | static_cast<uint32_t>(d[1]) << 16); }

  // The multiplication by 2^120 re-biases the exponent and normalizes subnormals.
  RIDGE_HD static float value_of(uint8_t bits) {
    const uint32_t magnitude = bits & 0x7fu, sign = static_cast<uint32_t>(bits & 0x80u) << 24;
    if (magnitude == 0x7f) return core::f32_from_bits(sign | 0x7fc00000u);
    return core::f32_from_bits(core::bits_from_f32(core::f32_from_bits(magnitude << 20) * 0x1p120f) | sign);
  }

  RIDGE_HD void values(int g, float* out) const {
    for (int i = 0; i < 32; ++i) out[i] = scale() * value_of(qs[32 * g + i]);
  }

  RIDGE_HD void unpack(int g, Group& out) const {
    for (int s = 0; s < 2; ++s) {
      const uint8_t* bits = qs + 32 * g + 16 * s;
      int largest = 8; // exponent 1: also of subnormals
      for (int i = 0; i < 16; ++i) largest = (bits[i] & 0x7f) > largest ? bits[i] & 0x7f : largest;
      const int top = largest >> 3; // its exponent, 1 … 15
      for (int i = 0; i < 16; ++i) {
        const int field = bits[i] >> 3 & 15, exponent = field > 0 ? field : 1;
        const int significand = (bits[i] & 7) + (field > 0 ? 8 : 0); // in units of 2^(exponent - 10)
        const int down = top - exponent;                             // the unit is 2^(top - 13)
        const int code = down > 7 ? 0 : (16 * significand + (1 << down)) >> (down + 1);
        out.code[16 * s + i] = static_cast<int8_t>(bits[i] & 0x80 ? -code : code);
      }
      out.scale[s] = scale() * core::f32_from_bits(static_cast<uint32_t>(top - 13 + 127) << 23);
      out.offset[s] = 0.0f;
    }
  }
};
static_assert(sizeof(FP8_E4M3) == 68);

} // namespace ridge::quant
