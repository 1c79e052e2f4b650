// IQ2_S: 256 weights in 82 bytes. A codebook of 1024 points.
//
//   +0     d       binary16
//   +2     qs      one byte per 8 weights: low eight index bits
//   +34    signs   one byte per 8 weights: bit j: weight j is negative
//   +66    qh      one byte per 32 weights: the upper two index bits of the i-th 8 weights at bit 2i
//   +74    scales  one byte per 32 weights: low nibble first
//
// w = (d * (0.5 + scale) / 4) * code
#pragma once

#include "quant/formats/codebooks.h"
#include "quant/formats/group.h"

namespace ridge::quant {

struct IQ2_S {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 16;
  static constexpr bool kHasOffset = false;

  Half d;
  uint8_t qs[32];
  uint8_t signs[32];
  uint8_t qh[8];
  uint8_t scales[8];

  RIDGE_HD void unpack(int g, Group& out) const {
    for (int i = 0; i < 4; ++i) {
      const int index = qs[4 * g + i] | ((qh[g] >> (2 * i)) & 3) << 8;
      store8(out.code + 8 * i, with_signs(kIq2SCodebook.point[index], signs[4 * g + i]));
    }
    for (int s = 0; s < 2; ++s) {
      out.scale[s] = d * (0.5f + static_cast<float>((scales[g] >> (4 * s)) & 15)) * 0.25f;
      out.offset[s] = 0.0f;
    }
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int g = 0; g < 8; ++g) {
      int high = 0;
      for (int i = 0; i < 4; ++i) {
        const Signed8 octet(in.code + 32 * g + 8 * i);
        const int index = find_point(kIq2SCodebook, octet.magnitude);
        qs[4 * g + i] = static_cast<uint8_t>(index);
        signs[4 * g + i] = octet.signs;
        high |= (index >> 8) << (2 * i);
      }
      qh[g] = static_cast<uint8_t>(high);
      scales[g] = static_cast<uint8_t>(static_cast<int>(in.scale[2 * g]) | static_cast<int>(in.scale[2 * g + 1]) << 4);
    }
  }
};
static_assert(sizeof(IQ2_S) == 82);

} // namespace ridge::quant
