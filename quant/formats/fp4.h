// FP4, in memory only: bitsandbytes FP4 in NF4's block. Magnitudes 0, 1/192, 2/3, 1, 1/3, 1/2, 1/6, 1/4.
//
// w = d * level[q]
#pragma once

#include "quant/formats/nf4.h"

namespace ridge::quant {

struct FP4 : LevelBlock {
  RIDGE_HD static constexpr float level(int code) { return kFp4Levels[code]; }
  RIDGE_HD float value(int i) const { return d * level(code(i)); }
};
static_assert(sizeof(FP4) == 36);

} // namespace ridge::quant
