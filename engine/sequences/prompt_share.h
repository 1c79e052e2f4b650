// How many tokens of prompts a step evaluates beside sequences that generate, which wait so long for their next token:
// as many as a step has time for, by what steps took so far. What a token costs depends on the model and the machine.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ridge::engine {

class PromptShare {
 public:
  int64_t tokens() const { return tokens_; }

  // A step of generating sequences with so many tokens of prompts took so long.
  void took(int64_t prompt_tokens, double seconds) {
    if (prompt_tokens == 0) {
      generating_ = generating_ == 0 ? seconds : 0.8 * generating_ + 0.2 * seconds;
      return;
    }
    const double fits = std::max(kSeconds, kSlower * generating_) / seconds; // steps like this one
    const bool whole = prompt_tokens >= tokens_;
    if (fits < 1) // a part of a step does not depend on their number, and the first of a kind takes longer
      set(static_cast<double>(prompt_tokens) * std::max(fits, fits < 0.5 ? 0.5 : 0.8));
    else if (whole && fits > 1.1)
      set(static_cast<double>(tokens_) * std::min(fits, 1.25) + kMultiple - 1);
  }

 private:
  static constexpr double kSeconds = 0.04; // that a step may take; a reader does not notice such a pause
  static constexpr double kSlower = 3;     // or so many times as long as without prompts, where that is longer
  static constexpr int64_t kFewest = 32, kMost = 512;
  static constexpr int64_t kMultiple = 32; // kernels work on as many rows; and executors plan each number anew

  void set(double tokens) {
    tokens_ = std::clamp(static_cast<int64_t>(tokens) / kMultiple * kMultiple, kFewest, kMost);
  }

  int64_t tokens_ = kMost;
  double generating_ = 0; // seconds of a step without prompts
};

} // namespace ridge::engine
