// Reads and writes the marks of call_syntax.h.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

struct PatternMatch {
  enum Result { no, yes, more }; // more: the text is too short to tell
  Result result = no;
  size_t size = 0;     // bytes of the text, where it matches
  std::string id = {}; // what stood for $D
};
// Whether `text` begins with the pattern. `whole`: no further text comes.
PatternMatch match_pattern(std::string_view pattern, std::string_view text, bool whole);

// The parts of a pattern, in order: exactly one member says something.
struct PatternPart {
  std::string_view literal = {};                   // white space included
  char variable = 0;                               // D, I, T or N
  std::vector<std::string_view> alternatives = {}; // patterns
};
// Takes the first part off the pattern, which is not empty.
PatternPart take_part(std::string_view& pattern);

// What a pattern writes: the first of alternatives; `id`, `number`, `name` and `type` for the variables.
struct PatternValues {
  std::string_view id = {}, name = {}, type = {};
  size_t number = 0;
};
std::string write_pattern(std::string_view pattern, const PatternValues& values);

} // namespace ridge::text
