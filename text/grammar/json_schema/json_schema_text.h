// GBNF for literals, numbers, strings.
#pragma once

#include "text/grammar/json_schema/string_set.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::text {

class GrammarRules;

// A quoted literal of UTF-8 text.
std::string gbnf_literal(std::string_view text);

// Integers in [min, max]; at most 18 digits without a bound.
std::string gbnf_integer_range(std::optional<int64_t> min, std::optional<int64_t> max);
// Multiples of `step` > 0; empty: none. Throws Error if too large.
std::string gbnf_multiples(GrammarRules& rules, std::optional<int64_t> min, std::optional<int64_t> max, int64_t step,
                           const std::string& hint);

struct Decimal {
  bool negative = false; // never for 0
  uint64_t whole = 0;    // below 10^18
  std::string fraction;  // digits without trailing zeros
  bool operator==(const Decimal&) const = default;
};
struct NumberBounds {
  std::optional<Decimal> min, max;
  bool min_excluded = false, max_excluded = false;
  size_t places = 15; // maximum after the point
};
// No exponent; empty: none. Few enough digits that doubles never round onto an excluded bound.
std::string gbnf_number_range(const NumberBounds& bounds);

struct StringNotation {
  std::string any;     // rule for any character
  bool is_json = true; // JSON's escapes; else verbatim
  char never = 0;      // excluded from verbatim text: it would begin the marker after the string
};

// Throw Error if the notation cannot represent the set or the grammar is too large.
std::string gbnf_from_pattern(GrammarRules& rules, const StringPattern& pattern, const StringNotation& notation,
                              const std::string& hint);
std::string gbnf_from_set(GrammarRules& rules, const StringSet& set, const StringNotation& notation,
                          const std::string& hint);

} // namespace ridge::text
