// NVFP4: 64 weights in 36 bytes. MXFP4 with an 8-bit float scale per 16.
//
//   +0     d     4 × UE4M3 (exponent bias 7, the top bit unused): the scales of weights 16s … 16s+15
//   +4     qs    4 × 8 bytes: per 16 weights, low nibbles first
//
// w = (d / 2) * (2 * value)
#pragma once

#include "quant/formats/mxfp4.h"

#include <cstring>

namespace ridge::quant {

struct NVFP4 {
  static constexpr int kWeights = 64;
  static constexpr int kScaleWeights = 16;
  static constexpr bool kHasOffset = false;

  uint8_t d[4];
  uint8_t qs[32];

  // 0x7f, UE4M3's NaN, means 0. Times 2^119 re-biases the exponent, halves, and normalizes subnormals.
  RIDGE_HD static float half_ue4m3(uint8_t bits) {
    return bits == 0x7f ? 0.0f : core::f32_from_bits(static_cast<uint32_t>(bits & 0x7f) << 20) * 0x1p119f;
  }

  RIDGE_HD void unpack(int g, Group& out) const {
    int8_t low[16], high[16];
    RIDGE_VECTOR_LOOP
    for (int i = 0; i < 16; ++i) {
      low[i] = doubled_e2m1(qs[16 * g + i] & 15);
      high[i] = doubled_e2m1(qs[16 * g + i] >> 4);
    }
    for (int s = 0; s < 2; ++s) {
      std::memcpy(out.code + 16 * s, low + 8 * s, 8);
      std::memcpy(out.code + 16 * s + 8, high + 8 * s, 8);
      out.scale[s] = half_ue4m3(d[2 * g + s]);
      out.offset[s] = 0.0f;
    }
  }

  RIDGE_HD void pack(const Parts& in) {
    for (int s = 0; s < 4; ++s) {
      d[s] = static_cast<uint8_t>(core::bits_from_f32(in.scale[s] * 0x1p-119f) >> 20);
      for (int i = 0; i < 8; ++i) {
        const int8_t* code = in.code + 16 * s + i;
        qs[8 * s + i] = static_cast<uint8_t>(e2m1_nibble(code[0]) | e2m1_nibble(code[8]) << 4);
      }
    }
  }
};
static_assert(sizeof(NVFP4) == 36);

} // namespace ridge::quant
