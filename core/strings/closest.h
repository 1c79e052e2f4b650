// Suggestions for mistyped words.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::core {

// Returns a known word with a small edit distance or a common beginning, ignoring case and dashes; else empty.
std::string closest(std::string_view word, std::span<const std::string> known);

// "; did you mean 'chat'?", or empty.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

} // namespace ridge::core
