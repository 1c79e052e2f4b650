// Q3_K: 256 weights in 110 bytes. Groups of 16.
//
//   +0     hmask   bit g of byte l is the top bit of weight 32g + l
//   +32    qs      2 × 32 bytes, byte l: 2 bits of weights l, l+32, l+64, l+96
//   +96    scales  16 × 6 bits in 12 bytes. Low four: scales 0-7 are the low nibbles of bytes 0-7, scales 8-15 the
//                  high ones. Upper two of scale s: bits 2 * (s / 4) and up of byte 8 + s % 4
//   +108   d       binary16
//
// w = (d * (scale - 32)) * (q - 4)
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

struct Q3_K {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 16;
  static constexpr bool kHasOffset = false;

  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  Half d;

  RIDGE_HD int scale(int s) const {
    return ((scales[s % 8] >> (4 * (s / 8))) & 15) | (((scales[8 + s % 4] >> (2 * (s / 4))) & 3) << 4);
  }

  RIDGE_HD void unpack(int g, Group& out) const {
    const uint8_t* q = qs + 32 * (g / 4);
    const int shift = 2 * (g % 4);
    for (int i = 0; i < 32; ++i)
      out.code[i] = static_cast<int8_t>((((q[i] >> shift) & 3) | (((hmask[i] >> g) & 1) << 2)) - 4);
    for (int s = 0; s < 2; ++s) {
      out.scale[s] = d * static_cast<float>(scale(2 * g + s) - 32);
      out.offset[s] = 0.0f;
    }
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int i = 0; i < 12; ++i) scales[i] = 0;
    for (int s = 0; s < 16; ++s) {
      const int scale = static_cast<int>(in.scale[s]) + 32;
      scales[s % 8] = static_cast<uint8_t>(scales[s % 8] | (scale & 15) << (4 * (s / 8)));
      scales[8 + s % 4] = static_cast<uint8_t>(scales[8 + s % 4] | (scale >> 4) << (2 * (s / 4)));
    }
    for (int i = 0; i < 64; ++i) {
      const int8_t* code = in.code + 128 * (i / 32) + i % 32; // same low bits as code + 4
      qs[i] = static_cast<uint8_t>((code[0] & 3) | (code[32] & 3) << 2 | (code[64] & 3) << 4 | (code[96] & 3) << 6);
    }
    for (int i = 0; i < 32; ++i) {
      int bits = 0;
      for (int g = 0; g < 8; ++g) bits |= (in.code[32 * g + i] >= 0) << g;
      hmask[i] = static_cast<uint8_t>(bits);
    }
  }
};
static_assert(sizeof(Q3_K) == 110);

} // namespace ridge::quant
