// How fast a download goes, for a line of progress.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

namespace ridge::hub {

class Speed {
 public:
  // "2.10 of 4.92 GB, 112.00 MB/s, 25 s left", by the last seconds; without the rest while that is not known.
  std::string text(double now_seconds, int64_t done, int64_t total);

 private:
  std::deque<std::pair<double, int64_t>> seen_; // when how much was there
};

} // namespace ridge::hub
