// Rounding up.
#pragma once

#include <cstdint>

namespace ridge::core {

constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }
template <typename Count, typename Per>
constexpr auto ceil_div(Count n, Per per) {
  return (n + per - 1) / per;
}

} // namespace ridge::core
