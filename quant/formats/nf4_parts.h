// NF4_PARTS, in memory only: 64 weights in 36 bytes, 4.5 bits per weight. What bitsandbytes' NF4 checkpoints run as:
// sixteen levels, quantiles of the normal distribution (Dettmers et al. 2023), times a scale.
//
//   byte 0     d     binary32 scale, as two halves of its bits, low first
//   byte 4     qs    2 × 16 bytes: of each 32 weights, low nibbles are the first 16, high nibbles the last 16
//
// w = d * level[q]. The levels are no multiples of one number, so that no 8-bit code says them well; two do: level =
// (high + low / 254) / 127, to 3e-10 of relative mean squared error. A block therefore unpacks to twice its weights,
// the high parts of 32 weights and then their low parts, for inputs that repeat every 32 columns
// (PlanarWeight::input_order): twice the dot products, but no byte more to read, which is what costs.
#pragma once

#include "quant/group.h"

namespace ridge::quant {

RIDGE_TABLE int8_t kNf4Parts[2][16] = {{-127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127},
                                       {0, -106, 80, -39, -32, -118, 111, 0, 27, 111, 65, -22, -8, 115, -47, 0}};

// The blocks of NF4_PARTS and FP4_PARTS: the scale and codes of 64 weights, each as the two parts that the tables give
// it.
struct LevelBlock {
  static constexpr int kWeights = 128;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  uint16_t d[2];
  uint8_t qs[32];

  // Of a block's high or low parts.
  RIDGE_HD static float scale_of(uint32_t d_bits, int half) {
    const float high = core::f32_from_bits(d_bits) * (1 / 127.0f);
    return half ? high * (1 / 254.0f) : high;
  }

  RIDGE_HD void unpack_parts(int g, const int8_t (&parts)[2][16], Group& out) const {
    const uint8_t* codes = qs + 16 * (g / 2);
    for (int i = 0; i < 16; ++i) {
      out.code[i] = parts[g % 2][codes[i] & 15];
      out.code[i + 16] = parts[g % 2][codes[i] >> 4];
    }
    out.scale[0] = out.scale[1] = scale_of(d[0] | static_cast<uint32_t>(d[1]) << 16, g % 2);
    out.offset[0] = out.offset[1] = 0.0f;
  }
};
static_assert(sizeof(LevelBlock) == 36);

struct NF4_PARTS : LevelBlock {
  RIDGE_HD static constexpr int part(int half, int code) { return kNf4Parts[half][code]; }
  RIDGE_HD void unpack(int g, Group& out) const { unpack_parts(g, kNf4Parts, out); }
};

} // namespace ridge::quant
