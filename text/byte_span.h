// A range of bytes of a text.
#pragma once

#include <cstddef>

namespace ridge::text {

struct ByteSpan {
  size_t begin = 0, end = 0; // end: one past the last byte
  bool operator==(const ByteSpan&) const = default;
};

} // namespace ridge::text
