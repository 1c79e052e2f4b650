// NF4, in memory only: 64 weights in 36 bytes, 4.5 bits per weight. Holds the weights of bitsandbytes' NF4 checkpoints:
// sixteen levels, quantiles of the normal distribution (Dettmers et al. 2023), times a scale.
//
//   byte 0     d     binary32 scale (SplitFloat)
//   byte 4     qs    2 × 16 bytes: of each 32 weights, low nibbles are the first 16, high nibbles the last 16
//
// w = d * level[q]. The levels are not multiples of one number, so there are no integer codes.
#pragma once

#include "quant/group.h"
#include "quant/level_tables.h"

namespace ridge::quant {

// The blocks of NF4 and FP4.
struct LevelBlock {
  static constexpr int kWeights = 64;

  SplitFloat d;
  uint8_t qs[32];

  RIDGE_HD int code(int i) const { return qs[16 * (i / 32) + i % 16] >> (i / 16 % 2 * 4) & 15; }
};
static_assert(sizeof(LevelBlock) == 36);

struct NF4 : LevelBlock {
  RIDGE_HD static constexpr float level(int code) { return kNf4Levels[code]; }
  RIDGE_HD float value(int i) const { return d * level(code(i)); }
};

} // namespace ridge::quant
