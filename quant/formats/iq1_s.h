// IQ1_S: 256 weights in 50 bytes. Eight ternary digits per codebook point; an odd 4-bit scale and a shift per 32
// weights.
//
//   +0     d     binary16
//   +2     qs    one byte per 8 weights: low eight index bits
//   +34    qh    8 × 16 bits, one per 32 weights: the upper three index bits of the i-th 8 weights at bit 3i,
//                scale at bits 12-14, bit 15 set: the shift is negative
//
// w = (d * (2 * scale + 1)) * (digit ± 1/8). Codes are 8 * digit ± 1.
#pragma once

#include "quant/formats/codebooks.h"
#include "quant/formats/group.h"

namespace ridge::quant {

struct IQ1_S {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  Half d;
  uint8_t qs[32];
  uint16_t qh[8];

  RIDGE_HD void unpack(int g, Group& out) const {
    const int high = qh[g];
    for (int i = 0; i < 4; ++i)
      store8(out.code + 8 * i, kIq1Codebook.point[qs[4 * g + i] | ((high >> (3 * i)) & 7) << 8]);
    const int shift = high & 0x8000 ? -1 : 1;
    for (int i = 0; i < 32; ++i) out.code[i] = static_cast<int8_t>(out.code[i] + shift);
    out.scale[0] = out.scale[1] = d * static_cast<float>(2 * ((high >> 12) & 7) + 1) * 0.125f;
    out.offset[0] = out.offset[1] = 0.0f;
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int g = 0; g < 8; ++g) {
      const int shift = iq1_shift(in.code[32 * g]);
      int high = static_cast<int>(in.scale[g]) << 12 | (shift < 0 ? 0x8000 : 0);
      for (int i = 0; i < 4; ++i) {
        const int index = find_iq1_point(in.code + 32 * g + 8 * i, shift);
        qs[4 * g + i] = static_cast<uint8_t>(index);
        high |= (index >> 8) << (3 * i);
      }
      qh[g] = static_cast<uint16_t>(high);
    }
  }
};
static_assert(sizeof(IQ1_S) == 50);

} // namespace ridge::quant
