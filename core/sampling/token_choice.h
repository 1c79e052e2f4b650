// What a model thought when it chose a token: the likeliest ones of that step, for people to look at.
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
  static constexpr size_t kMost = 20; // of the likeliest ones

  struct Likely {
    int32_t token = -1; // -1: the vocabulary has no so many
    float log_probability = -std::numeric_limits<float>::infinity();
    float probability() const { return std::exp(log_probability); }
  };
  int32_t token = -1; // the one that was chosen
  // Natural, of the probability that the model gave it, before any filter or temperature.
  float log_probability = -std::numeric_limits<float>::infinity();
  std::array<Likely, kMost> top; // the likeliest first
  uint32_t end = 0;              // bytes of the answer up to and with this token

  float probability() const { return std::exp(log_probability); }
};

// `logits`: [vocab], as the model computed them. One pass for the best, one for their weights: 0.4 ms for 128 k tokens.
TokenChoice describe_choice(std::span<const float> logits, int32_t token);
// The same by what a sampler drew from, of which the first ones are in descending order of probability.
TokenChoice describe_choice(std::span<const Candidate> candidates, int32_t token);

} // namespace ridge::core
