// FP4_PARTS, in memory only: 64 weights in 36 bytes, 4.5 bits per weight. What bitsandbytes' FP4 checkpoints run as.
// The block is NF4's, in two parts likewise; the levels are sign and magnitude: 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4.
#pragma once

#include "quant/formats/nf4_parts.h"

namespace ridge::quant {

RIDGE_TABLE int8_t kFp4Parts[2][16] = {{0, 1, 85, 127, 42, 64, 21, 32, 0, -1, -85, -127, -42, -64, -21, -32},
                                       {0, -86, -85, 0, 85, -127, 42, -64, 0, 86, 85, 0, -85, 127, -42, 64}};

struct FP4_PARTS : LevelBlock {
  RIDGE_HD static constexpr int part(int half, int code) { return kFp4Parts[half][code]; }
  RIDGE_HD void unpack(int g, Group& out) const { unpack_parts(g, kFp4Parts, out); }
};
static_assert(sizeof(FP4_PARTS) == 36);

} // namespace ridge::quant
