// Chooses how many prompt tokens a step evaluates beside generating sequences, which wait for it. Adapts to measured
// times, since costs depend on model and machine.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ridge::engine {

class PromptShare {
 public:
  int64_t tokens() const { return tokens_; }

  // Reports a step that included generating sequences.
  void record_step(int64_t prompt_tokens, double seconds) {
    if (prompt_tokens == 0) {
      generating_ = generating_ == 0 ? seconds : 0.8 * generating_ + 0.2 * seconds;
      return;
    }
    const double fits = std::max(kSeconds, kSlower * generating_) / seconds;
    const bool whole = prompt_tokens >= tokens_;
    // A part of the time does not depend on the token count, and first steps take longer.
    if (fits < 1)
      set(static_cast<double>(prompt_tokens) * std::max(fits, fits < 0.5 ? 0.5 : 0.8));
    else if (whole && fits > 1.1)
      set(static_cast<double>(tokens_) * std::min(fits, 1.25) + kMultiple - 1);
  }

 private:
  static constexpr double kSeconds = 0.04; // readers do not notice such a pause
  static constexpr double kSlower = 3;     // multiple of a step without prompts; the longer limit counts
  static constexpr int64_t kMin = 32, kMax = 512;
  // Kernels work on multiples of it, and executors plan every new number of tokens.
  static constexpr int64_t kMultiple = 32;

  void set(double tokens) { tokens_ = std::clamp(static_cast<int64_t>(tokens) / kMultiple * kMultiple, kMin, kMax); }

  int64_t tokens_ = kMax;
  double generating_ = 0; // seconds of a step without prompts
};

} // namespace ridge::engine
