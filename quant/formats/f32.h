#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

struct F32 {
  static constexpr int kWeights = 1;

  float bits;

  RIDGE_HD float value(int = 0) const { return bits; }
  RIDGE_HD static F32 from(float value) { return {value}; }
};
static_assert(sizeof(F32) == 4);

} // namespace ridge::quant
