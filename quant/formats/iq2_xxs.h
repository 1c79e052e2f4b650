// IQ2_XXS: 256 weights in 66 bytes. A codebook of 256 points of eight magnitudes, signs of even parity.
//
//   +0     d     binary16
//   +2     qs    8 bytes per 32 weights: four codebook indices of 8 bits, then 32 bits: four times
//                seven signs, and the scale in the top four
//
// w = (d * (0.5 + scale) / 4) * code
#pragma once

#include "quant/formats/codebooks.h"
#include "quant/formats/group.h"

namespace ridge::quant {

struct IQ2_XXS {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  Half d;
  uint16_t qs[32];

  RIDGE_HD void unpack(int g, Group& out) const {
    const uint16_t* q = qs + 4 * g;
    const uint32_t signs_scale = core::u32_from_halves(q[2], q[3]);
    for (int i = 0; i < 4; ++i) {
      const int index = (q[i / 2] >> (8 * (i & 1))) & 255;
      store8(out.code + 8 * i, with_signs(kIq2XxsCodebook.point[index], eight_signs(signs_scale >> (7 * i))));
    }
    out.scale[0] = out.scale[1] = d * (0.5f + static_cast<float>(signs_scale >> 28)) * 0.25f;
    out.offset[0] = out.offset[1] = 0.0f;
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int g = 0; g < 8; ++g) {
      int index[4];
      uint32_t signs_scale = static_cast<uint32_t>(in.scale[g]) << 28;
      for (int i = 0; i < 4; ++i) {
        const Signed8 octet(in.code + 32 * g + 8 * i);
        index[i] = find_point(kIq2XxsCodebook, octet.magnitude);
        signs_scale |= (octet.signs & 127u) << (7 * i);
      }
      uint16_t* q = qs + 4 * g;
      for (int i = 0; i < 2; ++i) q[i] = static_cast<uint16_t>(index[2 * i] | index[2 * i + 1] << 8);
      q[2] = static_cast<uint16_t>(signs_scale);
      q[3] = static_cast<uint16_t>(signs_scale >> 16);
    }
  }
};
static_assert(sizeof(IQ2_XXS) == 66);

} // namespace ridge::quant
