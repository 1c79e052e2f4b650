// FP4, in memory only: 64 weights in 36 bytes, 4.5 bits per weight. What bitsandbytes' FP4 checkpoints run as; the
// bytes are NF4's, the levels sign and magnitude: 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4.
//
// w = d * level[q]. All magnitudes but 1/192 are twelfths: `values` gives the weights themselves, `unpack` takes 1/120
// for 1/192 (relative MSE 5e-6).
#pragma once

#include "quant/group.h"

namespace ridge::quant {

RIDGE_TABLE float kFp4Levels[16] = {
    0.0f,  0.005208333333f,  0.6666666667f,  1.0f,  0.3333333333f,  0.5f,  0.1666666667f,  0.25f,
    -0.0f, -0.005208333333f, -0.6666666667f, -1.0f, -0.3333333333f, -0.5f, -0.1666666667f, -0.25f};
RIDGE_TABLE int8_t kFp4Codes[16] = {0, 1, 80, 120, 40, 60, 20, 30, 0, -1, -80, -120, -40, -60, -20, -30};

struct FP4 {
  static constexpr int kWeights = 64;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  uint16_t d[2];
  uint8_t qs[32];

  RIDGE_HD float scale() const { return core::f32_from_bits(d[0] | static_cast<uint32_t>(d[1]) << 16); }

  RIDGE_HD void values(int g, float* out) const {
    for (int i = 0; i < 16; ++i) {
      out[i] = scale() * kFp4Levels[qs[16 * g + i] & 15];
      out[i + 16] = scale() * kFp4Levels[qs[16 * g + i] >> 4];
    }
  }

  RIDGE_HD void unpack(int g, Group& out) const {
    for (int i = 0; i < 16; ++i) {
      out.code[i] = kFp4Codes[qs[16 * g + i] & 15];
      out.code[i + 16] = kFp4Codes[qs[16 * g + i] >> 4];
    }
    out.scale[0] = out.scale[1] = scale() * (1 / 120.0f);
    out.offset[0] = out.offset[1] = 0.0f;
  }
};
static_assert(sizeof(FP4) == 36);

} // namespace ridge::quant
