// White space around markers, and partial markers in streams.
#pragma once

#include <algorithm>
#include <string_view>

namespace ridge::text {

inline constexpr std::string_view kWhiteSpace = " \t\r\n";

inline std::string_view trim_left(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
}
inline std::string_view trim_right(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kWhiteSpace) + 1);
}
inline std::string_view trim(std::string_view text) { return trim_left(trim_right(text)); }

// Longest proper prefix of `mark` that ends `text`.
inline size_t partial_mark_bytes(std::string_view text, std::string_view mark) {
  for (size_t size = std::min(text.size(), mark.size() - 1); size > 0; --size)
    if (text.ends_with(mark.substr(0, size))) return size;
  return 0;
}

} // namespace ridge::text
