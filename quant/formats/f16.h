#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

struct F16 {
  static constexpr int kWeights = 1;

  Half half;

  RIDGE_HD float value(int = 0) const { return half; }
  RIDGE_HD static F16 from(float value) { return {{core::f16_from_f32(value)}}; }
};
static_assert(sizeof(F16) == 2);

} // namespace ridge::quant
