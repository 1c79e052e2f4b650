// The angle by which rope rotates a pair: position * inverse_frequency, less whole turns. Every executor computes it
// with these functions, so that all of them rotate by the same angle, bit for bit.
//
// The plain f32 product is off by half a unit in its last place: up to 0.004 radians at position 100,000 and up to
// 0.03 at 1,000,000, which moves logits. Here the product is exact, as the sum of two floats, and the turns are taken
// off before the two are rounded to one. The result is off by less than 4e-7 radians at every position below 2^24.
// It costs eight f32 instructions and no double, and it keeps the sine's and cosine's argument small, where they are
// fast: CUDA's sincosf takes a slow path above 105,615 radians.
//
// All operations are correctly rounded by IEEE 754, and no product is the operand of a plain sum, so no compiler may
// contract any two of them: host and device give the same bits.
#pragma once

#include "core/host_device.h"

#include <cmath>
#include <cstdint>

namespace ridge::core {

// Radians, at most 5.1 in magnitude (more than pi, because the number of turns is rounded). position: 0 to 2^24;
// inverse_frequency: 0 to 1 radians per position.
RIDGE_HD float rope_angle(int32_t position, float inverse_frequency) {
  constexpr float kTurnsPerRadian = 0x1.45f306p-3f;
  constexpr float kTurn = 0x1.921fb6p+2f, kTurnRest = -0x1.777a5cp-23f; // their sum is 2 pi to 5e-15
  const auto steps = static_cast<float>(position);
  const float product = steps * inverse_frequency;
  const float product_rest = fmaf(steps, inverse_frequency, -product); // exact
  const float turns = rintf(product * kTurnsPerRadian);
  const float angle = fmaf(-turns, kTurn, product); // exact: both are multiples of 2^-21, and the result is below 8
  const float angle_rest = fmaf(-turns, kTurnRest, product_rest);
  return angle + angle_rest;
}

} // namespace ridge::core
