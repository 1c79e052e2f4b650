// The rope angle: position * inverse_frequency modulo full turns, bit-identical on all executors.
// A plain f32 product is off by 0.004 radians at position 100,000 and 0.03 at 1,000,000, which changes logits. Here
// the product is an exact sum of two floats and is reduced before rounding: the error is below 4e-7 for positions below
// 2^24. This takes eight f32 instructions, and avoids the slow path of CUDA's sincosf above 105,615 radians.
// No product is an operand of a plain sum, so compilers cannot contract operations, and IEEE 754 fixes all bits.
#pragma once

#include "core/host_device.h"

#include <cmath>
#include <cstdint>

namespace ridge::core {

// Returns at most 5.1 radians (above pi, because the number of turns is rounded). position: 0 to 2^24;
// inverse_frequency: 0 to 1.
RIDGE_HD float rope_angle(int32_t position, float inverse_frequency) {
  constexpr float kTurnsPerRadian = 0x1.45f306p-3f;
  constexpr float kTurn = 0x1.921fb6p+2f, kTurnRest = -0x1.777a5cp-23f; // sum: 2 pi, error 5e-15
  const auto steps = static_cast<float>(position);
  const float product = steps * inverse_frequency;
  const float product_rest = fmaf(steps, inverse_frequency, -product); // exact
  const float turns = rintf(product * kTurnsPerRadian);
  const float angle = fmaf(-turns, kTurn, product); // exact: multiples of 2^-21 below 8
  const float angle_rest = fmaf(-turns, kTurnRest, product_rest);
  return angle + angle_rest;
}

} // namespace ridge::core
