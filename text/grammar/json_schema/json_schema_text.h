// Pieces of GBNF text that the JSON schema converter is made of: literals, ranges of numbers, sets of strings.
#pragma once

#include "text/grammar/json_schema/string_set.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::text {

class GrammarRules; // json_schema_rules.h

// "…" with GBNF's escapes, matching exactly `text` (UTF-8).
std::string gbnf_literal(std::string_view text);

// Whole numbers from min to max in JSON notation; at most 18 digits where a bound is missing. min ≤ max.
std::string gbnf_integer_range(std::optional<int64_t> min, std::optional<int64_t> max);
// Those of them that are multiples of `step`, above 0. Empty: there are none. Throws an Error where a grammar of them
// would be too large.
std::string gbnf_multiples(GrammarRules& rules, std::optional<int64_t> min, std::optional<int64_t> max, int64_t step,
                           const std::string& hint);

struct Decimal {
  bool negative = false; // never of 0
  uint64_t whole = 0;    // below 10^18
  std::string fraction;  // the digits after the point, without zeros at the end
  bool operator==(const Decimal&) const = default;
};
struct NumberBounds {
  std::optional<Decimal> min, max;
  bool min_excluded = false, max_excluded = false;
  size_t places = 15; // digits after the point, at most
};
// Decimal numbers, without exponent, within bounds; empty where there are none. The digits after the point are so few
// that a double holds the number without rounding it onto an excluded bound.
std::string gbnf_number_range(const NumberBounds& bounds);

// How a string's characters are written.
struct StringNotation {
  std::string any;     // the rule for any one character
  bool is_json = true; // as between the quotation marks of JSON; else as they are
  char never = 0;      // where they are written as they are: with this one a mark behind the string would begin
};

// Both give an expression for strings whose value matches. They throw an Error where the notation has no way to write
// them, and where the grammar would be too large.
std::string gbnf_from_pattern(GrammarRules& rules, const StringPattern& pattern, const StringNotation& notation,
                              const std::string& hint);
std::string gbnf_from_set(GrammarRules& rules, const StringSet& set, const StringNotation& notation,
                          const std::string& hint);

} // namespace ridge::text
