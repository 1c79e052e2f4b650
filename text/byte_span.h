#pragma once

#include <cstddef>

namespace ridge::text {

struct ByteSpan {
  size_t begin = 0, end = 0; // [begin, end)
  bool operator==(const ByteSpan&) const = default;
};

} // namespace ridge::text
