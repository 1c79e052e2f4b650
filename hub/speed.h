// Download speed for progress lines.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

namespace ridge::hub {

class Speed {
 public:
  std::string text(double now_seconds, int64_t done, int64_t total);

 private:
  std::deque<std::pair<double, int64_t>> seen_; // time, bytes
};

} // namespace ridge::hub
