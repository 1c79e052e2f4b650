// NF4, in memory only: 64 weights in 36 bytes, 4.5 bits per weight. bitsandbytes' sixteen levels, quantiles of the
// normal distribution (Dettmers et al. 2023), times a scale.
//
//   byte 0     d     binary32 scale, as two halves of its bits, low first
//   byte 4     qs    2 × 16 bytes: of each 32 weights, low nibbles are the first 16, high nibbles the last 16
//
// w = d * level[q]. Here each level is its nearest 127th (relative mean squared error below 2e-5, where the rounding to
// levels costs 1e-2): for saying what a tensor would lose in NF4 (quant/encode/levels.cpp). Checkpoints run as
// NF4_PARTS.
#pragma once

#include "quant/group.h"

namespace ridge::quant {

RIDGE_TABLE int8_t kNf4Codes[16] = {-127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127};

// The blocks of NF4 and FP4.
struct CodedLevels {
  static constexpr int kWeights = 64;
  static constexpr int kScaleWeights = 32;
  static constexpr bool kHasOffset = false;

  uint16_t d[2];
  uint8_t qs[32];

  RIDGE_HD void unpack_codes(int g, const int8_t (&codes)[16], Group& out) const {
    for (int i = 0; i < 16; ++i) {
      out.code[i] = codes[qs[16 * g + i] & 15];
      out.code[i + 16] = codes[qs[16 * g + i] >> 4];
    }
    out.scale[0] = out.scale[1] = core::f32_from_bits(d[0] | static_cast<uint32_t>(d[1]) << 16) / 127.0f;
    out.offset[0] = out.offset[1] = 0.0f;
  }
};
static_assert(sizeof(CodedLevels) == 36);

struct NF4 : CodedLevels {
  RIDGE_HD void unpack(int g, Group& out) const { unpack_codes(g, kNf4Codes, out); }
};

} // namespace ridge::quant
