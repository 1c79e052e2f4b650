// Evaluates models::FieldRule expressions.
#pragma once

#include "convert/import/config/json_file.h"

#include <algorithm>
#include <string_view>

namespace ridge::convert::import {

inline std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

template <typename Use>
void for_parts(std::string_view text, char separator, Use&& use) {
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    use(trimmed(text.substr(at, end - at)));
    at = end + 1;
  }
}

// Matches "word / other", or counts list entries.
double count_equal(const Json& field, std::string_view words);

} // namespace ridge::convert::import
