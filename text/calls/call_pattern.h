// Patterns of call_syntax.h.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

struct PatternMatch {
  enum Result { no, yes, more }; // more: needs more text
  Result result = no;
  size_t size = 0;
  std::string id = {};
};
// Matches at the start of `text`. `whole`: no more text follows.
PatternMatch match_pattern(std::string_view pattern, std::string_view text, bool whole);

// Exactly one member is set.
struct PatternPart {
  std::string_view literal = {};
  char variable = 0;
  std::vector<std::string_view> alternatives = {};
};
PatternPart take_part(std::string_view& pattern);

// Writes the first of alternatives; the other arguments replace variables.
struct PatternValues {
  std::string_view id = {}, name = {}, type = {};
  size_t number = 0;
};
std::string write_pattern(std::string_view pattern, const PatternValues& values);

} // namespace ridge::text
