// IQ3_S: 256 weights in 110 bytes. A codebook of 512 points.
//
//   +0     d       binary16
//   +2     qs      one byte per 4 weights: low eight index bits
//   +66    qh      one byte per 32 weights: bit k is the ninth index bit of the k-th 4 weights
//   +74    signs   one byte per 8 weights: bit j: weight j is negative
//   +106   scales  one byte per 64 weights: low nibble first
//
// w = (d * (1 + 2 * scale)) * code
#pragma once

#include "quant/formats/codebooks.h"
#include "quant/formats/group.h"

namespace ridge::quant {

struct IQ3_S {
  static constexpr int kWeights = 256;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  Half d;
  uint8_t qs[64];
  uint8_t qh[8];
  uint8_t signs[32];
  uint8_t scales[4];

  RIDGE_HD void unpack(int g, Group& out) const {
    for (int i = 0; i < 4; ++i) {
      const uint8_t* q = qs + 8 * g + 2 * i;
      const int ninth = qh[g] >> (2 * i);
      const uint64_t low = kIq3SCodebook.point[q[0] | (ninth & 1) << 8];
      const uint64_t high = kIq3SCodebook.point[q[1] | (ninth & 2) << 7];
      store8(out.code + 8 * i, with_signs(low | high << 32, signs[4 * g + i]));
    }
    const int scale = (scales[g / 2] >> (4 * (g & 1))) & 15;
    out.scale[0] = out.scale[1] = d * static_cast<float>(1 + 2 * scale);
    out.offset[0] = out.offset[1] = 0.0f;
  }

  RIDGE_HD void pack(const Parts& in) {
    d.bits = core::f16_from_f32(in.d);
    for (int g = 0; g < 8; ++g) {
      int ninth = 0;
      for (int i = 0; i < 4; ++i) {
        const Signed8 octet(in.code + 32 * g + 8 * i);
        for (int j = 0; j < 2; ++j) {
          const int index = find_point(kIq3SCodebook, octet.magnitude + 4 * j);
          qs[8 * g + 2 * i + j] = static_cast<uint8_t>(index);
          ninth |= (index >> 8) << (2 * i + j);
        }
        signs[4 * g + i] = octet.signs;
      }
      qh[g] = static_cast<uint8_t>(ninth);
    }
    for (int i = 0; i < 4; ++i)
      scales[i] = static_cast<uint8_t>(static_cast<int>(in.scale[2 * i]) | static_cast<int>(in.scale[2 * i + 1]) << 4);
  }
};
static_assert(sizeof(IQ3_S) == 110);

} // namespace ridge::quant
