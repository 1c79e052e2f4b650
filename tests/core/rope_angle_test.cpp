// rope_angle against long double at large positions.
#include "core/rope_angle.h"

#include "support/numerics.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

using namespace ridge;

namespace {

constexpr double kTurn = 2 * std::numbers::pi;

// Both factors have 24 bits: the double product is exact.
double error_of(int32_t position, float inverse_frequency) {
  const double exact = static_cast<double>(position) * inverse_frequency;
  return std::abs(std::remainder(core::rope_angle(position, inverse_frequency) - std::remainder(exact, kTurn), kTurn));
}

} // namespace

TEST_CASE("rope_angle is within 4e-7 radians of the exact product at every position below 2^24") {
  for (const int32_t position : {0, 1, 6, 7, 99'999, 100'000, 105'616, 999'999, 1'000'000, (1 << 24) - 1})
    for (const double base : {1e4, 5e5, 1e6})
      for (int pair = 0; pair < 64; ++pair) {
        CAPTURE(position);
        CAPTURE(pair);
        CHECK(error_of(position, static_cast<float>(std::pow(base, -pair / 64.0))) < 4e-7);
      }
  std::mt19937_64 random(tests::printed_seed());
  double worst = 0, largest = 0;
  for (int i = 0; i < 200'000; ++i) {
    const auto position = static_cast<int32_t>(random() % (1 << 24));
    const auto mantissa = static_cast<float>(random() % (1 << 24) + 1);
    const float inverse_frequency = std::ldexp(mantissa, -24 - static_cast<int>(random() % 20));
    worst = std::max(worst, error_of(position, inverse_frequency));
    largest = std::max(largest, std::abs(static_cast<double>(core::rope_angle(position, inverse_frequency))));
  }
  CHECK(worst < 4e-7);
  CHECK(largest < 5.1);
}
