// Converts only ASCII letters.
#pragma once

#include <string>
#include <string_view>

namespace ridge::core {

inline std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

} // namespace ridge::core
