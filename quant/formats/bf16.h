// BF16: bfloat16, the upper half of an IEEE binary32.
#pragma once

#include "quant/formats/group.h"

namespace ridge::quant {

struct BF16 {
  static constexpr int kWeights = 1;

  uint16_t bits;

  RIDGE_HD float value(int = 0) const { return core::f32_from_bf16(bits); }
  RIDGE_HD static BF16 from(float value) { return {core::bf16_from_f32(value)}; }
};
static_assert(sizeof(BF16) == 2);

} // namespace ridge::quant
