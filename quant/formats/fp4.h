// FP4, in memory only: 64 weights in 36 bytes, 4.5 bits per weight. bitsandbytes' 4-bit floats: sign, and magnitudes
// 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4, times a scale.
//
//   byte 0     d     binary32 scale, as two halves of its bits, low first
//   byte 4     qs    2 × 16 bytes: of each 32 weights, low nibbles are the first 16, high nibbles the last 16
//
// w = d * level[q]. Here each level is its nearest 127th (relative mean squared error below 2e-5, where the rounding to
// levels costs 1e-2): for saying what a tensor would lose in FP4 (quant/encode/levels.cpp). Checkpoints run as
// FP4_PARTS.
#pragma once

#include "quant/formats/nf4.h"

namespace ridge::quant {

RIDGE_TABLE int8_t kFp4Codes[16] = {0, 1, 85, 127, 42, 64, 21, 32, 0, -1, -85, -127, -42, -64, -21, -32};

struct FP4 : CodedLevels {
  RIDGE_HD void unpack(int g, Group& out) const { unpack_codes(g, kFp4Codes, out); }
};
static_assert(sizeof(FP4) == 36);

} // namespace ridge::quant
