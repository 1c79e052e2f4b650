// The cost of some work: tokens, wall time, and bytes moved as in op_cost.
#pragma once

#include <cstdint>

namespace ridge::engine {

struct Usage {
  int64_t tokens = 0;
  double seconds = 0;
  double bytes = 0;

  Usage& operator+=(const Usage& other) {
    tokens += other.tokens;
    seconds += other.seconds;
    bytes += other.bytes;
    return *this;
  }
  double tokens_per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
  double bytes_per_second() const { return seconds > 0 ? bytes / seconds : 0; }
};

} // namespace ridge::engine
