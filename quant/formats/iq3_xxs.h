// IQ3_XXS: 256 weights in 98 bytes. A codebook of 256 points of four magnitudes, signs of even parity.
//
//   +0     d            binary16
//   +2     qs           one byte per 4 weights: codebook index
//   +66    signs_scale  8 × 32 bits, one per 32 weights: four times seven signs, the scale in the top four
//
// w = (d * (0.5 + scale) / 2) * code
#pragma once

#include "quant/formats/codebooks.h"
#include "quant/formats/group.h"

namespace ridge::quant {

struct IQ3_XXS {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  Half d;
  uint8_t qs[64];
  uint16_t signs_scale[16];

  RIDGE_HD void unpack(int g, Group& out) const {
    const uint32_t bits = core::u32_from_halves(signs_scale[2 * g], signs_scale[2 * g + 1]);
    for (int i = 0; i < 4; ++i) {
      const uint8_t* q = qs + 8 * g + 2 * i;
      const uint64_t low = kIq3XxsCodebook.point[q[0]], high = kIq3XxsCodebook.point[q[1]];
      store8(out.code + 8 * i, with_signs(low | high << 32, eight_signs(bits >> (7 * i))));
    }
    out.scale[0] = out.scale[1] = d * (0.5f + static_cast<float>(bits >> 28)) * 0.5f;
    out.offset[0] = out.offset[1] = 0.0f;
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int g = 0; g < 8; ++g) {
      uint32_t bits = static_cast<uint32_t>(in.scale[g]) << 28;
      for (int i = 0; i < 4; ++i) {
        const Signed8 octet(in.code + 32 * g + 8 * i);
        for (int j = 0; j < 2; ++j)
          qs[8 * g + 2 * i + j] = static_cast<uint8_t>(find_point(kIq3XxsCodebook, octet.magnitude + 4 * j));
        bits |= (octet.signs & 127u) << (7 * i);
      }
      signs_scale[2 * g] = static_cast<uint16_t>(bits);
      signs_scale[2 * g + 1] = static_cast<uint16_t>(bits >> 16);
    }
  }
};
static_assert(sizeof(IQ3_XXS) == 98);

} // namespace ridge::quant
