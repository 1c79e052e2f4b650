// Splits number ranges into pieces with independent digits.
#include "core/error.h"
#include "text/grammar/json_schema/json_schema_rules.h"
#include "text/grammar/json_schema/json_schema_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ridge::text {

namespace {

constexpr size_t kMaxDigits = 18;
constexpr size_t kExactDigits = 15; // decimal digits that every double keeps
constexpr const char* kNonZero = "[1-9]";

std::string digits(size_t min, size_t max) {
  if (max == 0) return "";
  if (min == 1 && max == 1) return " [0-9]";
  return min == max ? fmt::format(" [0-9]{{{}}}", min) : fmt::format(" [0-9]{{{},{}}}", min, max);
}

std::string join(const std::vector<std::string>& alternatives) {
  return alternatives.size() == 1 ? alternatives[0] : fmt::format("({})", fmt::join(alternatives, " | "));
}

bool all(std::string_view text, char c) { return text.find_first_not_of(c) == std::string_view::npos; }

std::string digit_range(char first, char last) {
  return first == last ? fmt::format("\"{}\"", first) : fmt::format("[{}-{}]", first, last);
}

// Texts of equal length; begins with a blank unless empty.
std::string same_length(std::string_view low, std::string_view high) {
  if (low.empty()) return "";
  if (all(low, '0') && all(high, '9')) return digits(low.size(), low.size());
  const std::string_view low_rest = low.substr(1), high_rest = high.substr(1);
  if (low[0] == high[0]) return fmt::format(" \"{}\"{}", low[0], same_length(low_rest, high_rest));
  const std::string nines(low_rest.size(), '9'), zeros(low_rest.size(), '0');
  std::vector<std::string> pieces;
  char first = low[0], last = high[0];
  if (!all(low_rest, '0')) pieces.push_back(fmt::format("\"{}\"{}", first++, same_length(low_rest, nines)));
  std::string at_last;
  if (!all(high_rest, '9')) at_last = fmt::format("\"{}\"{}", last--, same_length(zeros, high_rest));
  if (first <= last) pieces.push_back(digit_range(first, last) + digits(low_rest.size(), low_rest.size()));
  if (!at_last.empty()) pieces.push_back(at_last);
  return fmt::format(" {}", join(pieces));
}

std::string unsigned_range(uint64_t min, std::optional<uint64_t> max) {
  const std::string low = std::to_string(min);
  std::vector<std::string> pieces;
  for (size_t length = low.size();; ++length) {
    const bool is_first = length == low.size();
    const std::string from = is_first ? low : fmt::format("1{}", std::string(length - 1, '0'));
    if (!max) {
      pieces.push_back(same_length(from, std::string(length, '9')).substr(1));
      if (length < kMaxDigits) {
        const size_t shortest = min == 0 ? 0 : length;
        if (min == 0) pieces.back() = "\"0\"";
        pieces.push_back(kNonZero + digits(shortest, kMaxDigits - 1));
      }
      break;
    }
    const std::string high = std::to_string(*max);
    const bool is_last = length == high.size();
    pieces.push_back(same_length(from, is_last ? high : std::string(length, '9')).substr(1));
    if (is_last) break;
  }
  return join(pieces);
}

uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

std::optional<uint64_t> magnitude(std::optional<int64_t> value) {
  std::optional<uint64_t> result;
  if (value) result = magnitude(*value);
  return result;
}

// Digits after the point: at most `places`, at least one if `first`; nullopt: no digits match.
using Digits = std::optional<std::string>;

Digits one_of(const std::vector<std::string>& ways) {
  if (ways.empty()) return std::nullopt;
  return join(ways);
}

std::string after_digit(char digit, const std::string& rest) { return fmt::format("\"{}\" {}", digit, rest); }

Digits fraction_from(std::string_view bound, bool excluded, size_t places, bool first) {
  if (bound.empty() && !excluded)
    return first && places == 0 ? Digits() : "(" + digits(first ? 1 : 0, places) + " \"\")";
  if (places == 0) return std::nullopt;
  if (bound.empty()) { // zeros, one nonzero digit, more digits: half of the places for each part
    const size_t half = (places - 1) / 2;
    return fmt::format("({} {}{})", half > 0 ? fmt::format("\"0\"{{0,{}}}", half) : "", kNonZero, digits(0, half));
  }
  std::vector<std::string> ways;
  if (bound[0] < '9') ways.push_back(digit_range(static_cast<char>(bound[0] + 1), '9') + digits(0, places - 1));
  if (const Digits rest = fraction_from(bound.substr(1), excluded, places - 1, false))
    ways.push_back(after_digit(bound[0], *rest));
  return one_of(ways);
}

Digits fraction_to(std::string_view bound, bool excluded, size_t places, bool first) {
  if (bound.empty() && (excluded || (first && places == 0))) return std::nullopt;
  if (bound.empty()) return places == 0 ? "\"\"" : fmt::format("\"0\"{{{},{}}}", first ? 1 : 0, places);
  std::vector<std::string> ways;
  if (!first) ways.push_back("\"\"");
  if (places > 0) {
    if (bound[0] > '0') ways.push_back(digit_range('0', static_cast<char>(bound[0] - 1)) + digits(0, places - 1));
    if (const Digits rest = fraction_to(bound.substr(1), excluded, places - 1, false))
      ways.push_back(after_digit(bound[0], *rest));
  }
  return one_of(ways);
}

struct FractionBounds {
  std::string_view min, max;
  bool min_excluded, max_excluded;
};

Digits fraction_between(const FractionBounds& b, size_t places, bool first) {
  if (b.min.empty() && !b.min_excluded) return fraction_to(b.max, b.max_excluded, places, first);
  if (places == 0) return std::nullopt;
  const char low = b.min.empty() ? '0' : b.min[0], high = b.max.empty() ? '0' : b.max[0];
  const FractionBounds rest = {b.min.substr(b.min.empty() ? 0 : 1), b.max.substr(b.max.empty() ? 0 : 1), b.min_excluded,
                               b.max_excluded};
  if (low > high || (b.min.empty() && b.max.empty())) return std::nullopt;
  std::vector<std::string> ways;
  const auto add = [&](char digit, const Digits& more) {
    if (more) ways.push_back(after_digit(digit, *more));
  };
  if (low == high) {
    add(low, fraction_between(rest, places - 1, false));
    return one_of(ways);
  }
  add(low, fraction_from(rest.min, b.min_excluded, places - 1, false));
  if (high - low > 1)
    ways.push_back(digit_range(static_cast<char>(low + 1), static_cast<char>(high - 1)) + digits(0, places - 1));
  add(high, fraction_to(rest.max, b.max_excluded, places - 1, false));
  return one_of(ways);
}

struct Magnitudes {
  Decimal min = {};
  std::optional<Decimal> max;
  bool min_excluded = false, max_excluded = false;
};

std::vector<std::string> unsigned_decimals(const Magnitudes& m, size_t places) {
  std::vector<std::string> pieces;
  const auto add = [&](uint64_t whole, bool bare, const Digits& fraction) {
    const std::string text = gbnf_literal(std::to_string(whole));
    if (fraction)
      pieces.push_back(fmt::format("{} (\".\" {}){}", text, *fraction, bare ? "?" : ""));
    else if (bare)
      pieces.push_back(text);
  };
  const bool bare_min = m.min.fraction.empty() && !m.min_excluded;
  const bool bare_max = m.max && (!m.max->fraction.empty() || !m.max_excluded);
  if (m.max && m.max->whole < m.min.whole) return pieces;
  if (m.max && m.max->whole == m.min.whole) {
    add(m.min.whole, bare_min && bare_max,
        fraction_between({m.min.fraction, m.max->fraction, m.min_excluded, m.max_excluded}, places, true));
    return pieces;
  }
  const std::string any_fraction = places > 0 ? fmt::format(" (\".\"{})?", digits(1, places)) : "";
  add(m.min.whole, bare_min, fraction_from(m.min.fraction, m.min_excluded, places, true));
  if (!m.max || m.max->whole - m.min.whole >= 2)
    pieces.push_back(unsigned_range(m.min.whole + 1, m.max ? std::optional(m.max->whole - 1) : std::nullopt) +
                     any_fraction);
  if (m.max) add(m.max->whole, bare_max, fraction_to(m.max->fraction, m.max_excluded, places, true));
  return pieces;
}

constexpr int64_t kMaxListed = 200;

// For steps that are no multiple of 10 and bounds of one sign.
std::string multiples_within(GrammarRules& rules, std::optional<int64_t> min, std::optional<int64_t> max, int64_t step,
                             const std::string& hint) {
  if (step == 1) return gbnf_integer_range(min, max);
  if (min && max && (*max - *min) / step < kMaxListed) {
    std::vector<std::string> values;
    const int64_t over = *min % step;
    for (int64_t value = *min - over + (over > 0 ? step : 0); value <= *max; value += step)
      values.push_back(gbnf_literal(std::to_string(value)));
    return values.empty() ? "" : fmt::format("({})", fmt::join(values, " | "));
  }
  if (step > static_cast<int64_t>(StringSet::kMaxStates)) throw_error("`multipleOf` {} is too large", step);
  // Without blanks and quotes, this GBNF is a regular expression.
  std::string range = gbnf_integer_range(min, max);
  std::erase_if(range, [](char c) { return c == ' ' || c == '"'; });
  const StringSet multiples = StringSet::of_multiples(static_cast<uint32_t>(step));
  const StringSet set = StringSet(parse_string_pattern(fmt::format("^({})$", range))).both(multiples);
  return set.empty() ? "" : gbnf_from_set(rules, set, {.any = "", .is_json = false}, hint);
}

} // namespace

std::string gbnf_integer_range(std::optional<int64_t> min, std::optional<int64_t> max) {
  std::vector<std::string> pieces;
  if (!min || *min < 0) {
    const uint64_t smallest = max && *max < 0 ? magnitude(*max) : 1;
    pieces.push_back(fmt::format("\"-\" {}", unsigned_range(smallest, magnitude(min))));
  }
  if (!max || *max >= 0) {
    const uint64_t smallest = min && *min > 0 ? magnitude(*min) : 0;
    pieces.push_back(unsigned_range(smallest, magnitude(max)));
  }
  return join(pieces);
}

std::string gbnf_multiples(GrammarRules& rules, std::optional<int64_t> min, std::optional<int64_t> max, int64_t step,
                           const std::string& hint) {
  int64_t ten = 1;
  std::string zeros;
  for (; step % 10 == 0; step /= 10, ten *= 10) zeros += "0";
  std::vector<std::string> pieces;
  const auto add = [&](std::optional<int64_t> from, std::optional<int64_t> to) {
    if (from && to && *from > *to) return;
    const std::string some = multiples_within(rules, from, to, step, hint);
    if (!some.empty()) pieces.push_back(zeros.empty() ? some : fmt::format("{} {}", some, gbnf_literal(zeros)));
  };
  if (min) *min = *min / ten + (*min % ten > 0 ? 1 : 0);
  if (max) *max = *max / ten - (*max % ten < 0 ? 1 : 0);
  if (!min || *min < 0) add(min, max ? std::min<int64_t>(*max, -1) : -1);
  if ((!min || *min <= 0) && (!max || *max >= 0)) pieces.push_back("\"0\"");
  if (!max || *max > 0) add(min ? std::max<int64_t>(*min, 1) : 1, max);
  return pieces.empty() ? "" : join(pieces);
}

std::string gbnf_number_range(const NumberBounds& bounds) {
  const auto digit_count = [](const std::optional<Decimal>& bound) {
    return bound ? std::to_string(bound->whole).size() : size_t{1};
  };
  const size_t whole_digits = std::max(digit_count(bounds.min), digit_count(bounds.max));
  const size_t places = std::min(bounds.places, kExactDigits - std::min(kExactDigits, whole_digits));
  const bool from_zero = !bounds.min || bounds.min->negative, to_zero = !bounds.max || !bounds.max->negative;
  std::vector<std::string> pieces;
  if (from_zero) {
    Magnitudes m{.max = bounds.min, .max_excluded = bounds.min_excluded};
    if (!to_zero) m.min = *bounds.max;
    m.min_excluded = bounds.max_excluded && (!to_zero || *bounds.max == Decimal());
    const auto negative = unsigned_decimals(m, places);
    if (!negative.empty()) pieces.push_back(fmt::format("\"-\" {}", join(negative)));
  }
  if (to_zero) {
    Magnitudes m{.max = bounds.max, .max_excluded = bounds.max_excluded};
    if (!from_zero) m.min = *bounds.min;
    m.min_excluded = !from_zero && bounds.min_excluded;
    const auto positive = unsigned_decimals(m, places);
    pieces.insert(pieces.end(), positive.begin(), positive.end());
  }
  return pieces.empty() ? "" : join(pieces);
}

} // namespace ridge::text
