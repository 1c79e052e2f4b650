// NF4, in memory only: 64 weights in 36 bytes (Dettmers et al. 2023).
//
//   +0     d     binary32 scale (SplitFloat)
//   +4     qs    2 × 16 bytes: per 32 weights, low nibbles first
//
// w = d * level[q]. Quantiles of the normal distribution: no integer codes.
#pragma once

#include "quant/formats/group.h"
#include "quant/formats/level_tables.h"

namespace ridge::quant {

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
