// IQ1_M: 256 weights in 56 bytes. IQ1_S with a scale per 16 weights, a shift per 8.
//
//   +0     qs      one byte per 8 weights: low eight index bits
//   +32    qh      16 bytes, a nibble per 8 weights: upper three index bits, then the sign of the shift
//   +48    scales  4 × 16 bits, one per 64 weights: four 3-bit scales, and in the top four bits a nibble of d,
//                  which is a binary16 with the lowest nibble first
//
// w = (d * (2 * scale + 1)) * (digit ± 1/8). Codes are 8 * digit ± 1.
#pragma once

#include "quant/formats/codebooks.h"
#include "quant/formats/group.h"

namespace ridge::quant {

struct IQ1_M {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 16;
  static constexpr bool kHasOffset = false;

  uint8_t qs[32];
  uint8_t qh[16];
  uint16_t scales[4];

  RIDGE_HD float d() const {
    return core::f32_from_f16(static_cast<uint16_t>(scales[0] >> 12 | (scales[1] >> 12) << 4 | (scales[2] >> 12) << 8 |
                                                    (scales[3] >> 12) << 12));
  }

  RIDGE_HD void unpack(int g, Group& out) const {
    int8_t shift[32];
    for (int i = 0; i < 4; ++i) {
      const int high = qh[2 * g + i / 2] >> (4 * (i & 1));
      store8(out.code + 8 * i, kIq1Codebook.point[qs[4 * g + i] | (high & 7) << 8]);
      store8(shift + 8 * i, kEachByte * ((high >> 3 & 1) * 0xfe + 1));
    }
    for (int i = 0; i < 32; ++i) out.code[i] = static_cast<int8_t>(out.code[i] + shift[i]);
    for (int s = 0; s < 2; ++s) {
      const int scale = (scales[g / 2] >> (6 * (g & 1) + 3 * s)) & 7;
      out.scale[s] = d() * static_cast<float>(2 * scale + 1) * 0.125f;
      out.offset[s] = 0.0f;
    }
  }

  RIDGE_HD void pack(const Parts& in) {
    const int bits = core::f16_from_f32(in.d);
    for (int i = 0; i < 4; ++i) {
      int word = (bits >> (4 * i) & 15) << 12;
      for (int s = 0; s < 4; ++s) word |= static_cast<int>(in.scale[4 * i + s]) << (3 * s);
      scales[i] = static_cast<uint16_t>(word);
    }
    for (int i = 0; i < 16; ++i) qh[i] = 0;
    for (int i = 0; i < 32; ++i) {
      const int shift = iq1_shift(in.code[8 * i]);
      const int index = find_iq1_point(in.code + 8 * i, shift);
      qs[i] = static_cast<uint8_t>(index);
      qh[i / 2] = static_cast<uint8_t>(qh[i / 2] | (index >> 8 | (shift < 0 ? 8 : 0)) << (4 * (i & 1)));
    }
  }
};
static_assert(sizeof(IQ1_M) == 56);

} // namespace ridge::quant
