// Pieces of GBNF text that the JSON schema converter is made of: literals, ranges of numbers, regular expressions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::text {

// "…" with GBNF's escapes, matching exactly `text` (UTF-8).
std::string gbnf_literal(std::string_view text);

// Whole numbers from min to max in JSON notation; at most 18 digits where a bound is missing. min ≤ max.
std::string gbnf_integer_range(std::optional<int64_t> min, std::optional<int64_t> max);

struct NumberBounds {
  std::optional<int64_t> min, max; // at most 10^12 in magnitude
  bool min_excluded = false, max_excluded = false;
};
// Decimal numbers, without exponent, within bounds that are not both equal and excluded. The digits after the point are
// so few that a double holds the number without rounding it onto an excluded bound.
std::string gbnf_number_range(const NumberBounds& bounds);

// How a string's characters are written.
struct StringNotation {
  std::string any;     // the rule for any one character
  bool is_json = true; // as between the quotation marks of JSON; else as they are
  char never = 0;      // where they are written as they are: with this one a mark behind the string would begin
};

// A string whose value matches the ECMAScript regular expression. As in JSON schema, the expression is unanchored
// unless it has ^ and $. Throws an Error that starts with `where` for malformed expressions and for those that are not
// regular (look-around, back-references, \b).
std::string gbnf_from_pattern(std::string_view pattern, const StringNotation& notation, std::string_view where);

} // namespace ridge::text
