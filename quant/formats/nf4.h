// NF4, in memory only: 64 weights in 36 bytes, 4.5 bits per weight. What bitsandbytes' NF4 checkpoints run as: sixteen
// levels, quantiles of the normal distribution (Dettmers et al. 2023), times a scale.
//
//   byte 0     d     binary32 scale, as two halves of its bits, low first
//   byte 4     qs    2 × 16 bytes: of each 32 weights, low nibbles are the first 16, high nibbles the last 16
//
// w = d * level[q]. The levels are no multiples of one number: `values` gives the weights themselves, `unpack` integers
// over 112.03 that come nearest in the mean (relative MSE 1.1e-5, a tenth of what 8-bit activations cost).
#pragma once

#include "quant/group.h"

namespace ridge::quant {

RIDGE_TABLE float kNf4Levels[16] = {-1.0f,
                                    -0.6961928009986877f,
                                    -0.5250730514526367f,
                                    -0.39491748809814453f,
                                    -0.28444138169288635f,
                                    -0.18477343022823334f,
                                    -0.09105003625154495f,
                                    0.0f,
                                    0.07958029955625534f,
                                    0.16093020141124725f,
                                    0.24611230194568634f,
                                    0.33791524171829224f,
                                    0.44070982933044434f,
                                    0.5626170039176941f,
                                    0.7229568362236023f,
                                    1.0f};
RIDGE_TABLE int8_t kNf4Codes[16] = {-112, -78, -59, -44, -32, -21, -10, 0, 9, 18, 28, 38, 49, 63, 81, 112};

struct NF4 {
  static constexpr int kWeights = 64;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  uint16_t d[2];
  uint8_t qs[32];

  RIDGE_HD float scale() const { return core::f32_from_bits(d[0] | static_cast<uint32_t>(d[1]) << 16); }

  RIDGE_HD void values(int g, float* out) const {
    for (int i = 0; i < 16; ++i) {
      out[i] = scale() * kNf4Levels[qs[16 * g + i] & 15];
      out[i + 16] = scale() * kNf4Levels[qs[16 * g + i] >> 4];
    }
  }

  RIDGE_HD void unpack(int g, Group& out) const {
    for (int i = 0; i < 16; ++i) {
      out.code[i] = kNf4Codes[qs[16 * g + i] & 15];
      out.code[i + 16] = kNf4Codes[qs[16 * g + i] >> 4];
    }
    out.scale[0] = out.scale[1] = scale() * (1 / 112.03022f);
    out.offset[0] = out.offset[1] = 0.0f;
  }
};
static_assert(sizeof(NF4) == 36);

} // namespace ridge::quant
