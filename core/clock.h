// Timing on the steady clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace ridge::core {

// Steady clock; only differences have meaning.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Wall seconds of max(1, repetitions) runs.
template <typename Work>
double median_seconds(int repetitions, const Work& work) {
  std::vector<double> seconds(static_cast<size_t>(repetitions));
  for (double& s : seconds) {
    const double start = seconds_now();
    work();
    s = seconds_now() - start;
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

} // namespace ridge::core
