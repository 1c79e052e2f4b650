// Linear time; std::string's searches are quadratic for repetitive texts.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace ridge::core {

inline size_t find(std::string_view text, std::string_view wanted, size_t from = 0) {
  if (from > text.size()) return std::string_view::npos;
  if (wanted.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

inline size_t find_last(std::string_view text, std::string_view wanted) {
  const std::string backwards(text.rbegin(), text.rend()), reversed(wanted.rbegin(), wanted.rend());
  const size_t found = find(backwards, reversed);
  return found == std::string_view::npos ? found : text.size() - wanted.size() - found;
}

} // namespace ridge::core
