// Rounding up to a multiple.
#pragma once

#include <cstdint>

namespace ridge::core {

constexpr int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

} // namespace ridge::core
