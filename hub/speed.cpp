#include "hub/speed.h"

#include "core/units.h"

#include <fmt/format.h>

namespace ridge::hub {

std::string Speed::text(double now_seconds, int64_t done, int64_t total) {
  constexpr double kWindow = 8, kTooShort = 0.5;
  if (!seen_.empty() && done < seen_.back().second) seen_.clear();
  seen_.emplace_back(now_seconds, done);
  while (seen_.size() > 2 && now_seconds - seen_[1].first > kWindow) seen_.pop_front();
  std::string line = fmt::format("{} of {}", core::human_bytes(static_cast<double>(done)),
                                 core::human_bytes(static_cast<double>(total)));
  const double seconds = now_seconds - seen_.front().first;
  const auto bytes = static_cast<double>(done - seen_.front().second);
  if (seconds < kTooShort || bytes <= 0) return line;
  const double left = static_cast<double>(total - done) * seconds / bytes;
  return line + fmt::format(", {}/s, {} left", core::human_bytes(bytes / seconds), core::human_seconds(left));
}

} // namespace ridge::hub
