// IQ2_XS: 256 weights in 74 bytes. A codebook of 512 points, signs of even parity.
//
//   +0     d       binary16
//   +2     qs      32 × 16 bits, one per 8 weights: codebook index in the low nine, seven signs above
//   +66    scales  one byte per 32 weights: low nibble first
//
// w = (d * (0.5 + scale) / 4) * code
#pragma once

#include "quant/formats/codebooks.h"
#include "quant/formats/group.h"

namespace ridge::quant {

struct IQ2_XS {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 16;
  static constexpr bool kHasOffset = false;

  Half d;
  uint16_t qs[32];
  uint8_t scales[8];

  RIDGE_HD void unpack(int g, Group& out) const {
    for (int i = 0; i < 4; ++i) {
      const uint32_t q = qs[4 * g + i];
      store8(out.code + 8 * i, with_signs(kIq2XsCodebook.point[q & 511], eight_signs(q >> 9)));
    }
    for (int s = 0; s < 2; ++s) {
      out.scale[s] = d * (0.5f + static_cast<float>((scales[g] >> (4 * s)) & 15)) * 0.25f;
      out.offset[s] = 0.0f;
    }
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int i = 0; i < 32; ++i) {
      const Signed8 octet(in.code + 8 * i);
      qs[i] = static_cast<uint16_t>(find_point(kIq2XsCodebook, octet.magnitude) | (octet.signs & 127) << 9);
    }
    for (int g = 0; g < 8; ++g)
      scales[g] = static_cast<uint8_t>(static_cast<int>(in.scale[2 * g]) | static_cast<int>(in.scale[2 * g + 1]) << 4);
  }
};
static_assert(sizeof(IQ2_XS) == 74);

} // namespace ridge::quant
