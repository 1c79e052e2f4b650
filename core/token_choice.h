// A step's likeliest tokens, for display.
#pragma once

#include "core/sampler.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ridge::core {

struct TokenChoice {
  static constexpr size_t kMax = 20;

  struct Likely {
    int32_t token = -1; // -1: the vocabulary is smaller
    float log_probability = -std::numeric_limits<float>::infinity();
    float probability() const { return std::exp(log_probability); }
  };
  int32_t token = -1; // chosen
  // Natural logarithm, before filters and temperature.
  float log_probability = -std::numeric_limits<float>::infinity();
  std::array<Likely, kMax> top; // the likeliest first
  uint32_t end = 0;             // bytes of the answer up to this token

  float probability() const { return std::exp(log_probability); }
};

// `logits`: [vocab]. Takes 0.4 ms for 128 k tokens.
TokenChoice describe_choice(std::span<const float> logits, int32_t token);
// The same from a sampler's candidates, of which the first are in descending order.
TokenChoice describe_choice(std::span<const Candidate> candidates, int32_t token);

} // namespace ridge::core
