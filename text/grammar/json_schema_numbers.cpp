// Ranges of numbers as grammars: a range is cut into pieces in which each digit has a range of its own.
#include "core/error.h"
#include "text/grammar/json_schema_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ridge::text {

namespace {

constexpr size_t kMaxDigits = 18;   // of integers without a bound
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

// Decimal texts of one length from `low` to `high`; begins with a blank unless empty.
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

// Whole numbers from min to max, both at least 0.
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

struct Magnitudes {
  uint64_t min;
  std::optional<uint64_t> max;
  bool min_excluded, max_excluded;
};

// Decimal numbers without sign; empty if there are none.
std::vector<std::string> unsigned_decimals(const Magnitudes& m, size_t places) {
  const std::string any_fraction = fmt::format(" (\".\"{})?", digits(1, places));
  const std::string zero_fraction = fmt::format(" (\".\" \"0\"{{1,{}}})?", places);
  std::vector<std::string> pieces;
  if (m.max && *m.max < m.min) return pieces;
  if (m.max && *m.max == m.min) {
    if (!m.min_excluded && !m.max_excluded) pieces.push_back(gbnf_literal(std::to_string(m.min)) + zero_fraction);
    return pieces;
  }
  const std::string min = gbnf_literal(std::to_string(m.min));
  if (m.min_excluded) {
    // Zeros, one digit that is not, more digits: half of the places for each side of that digit.
    const size_t half = (places - 1) / 2;
    pieces.push_back(fmt::format("{} \".\"{} {}{}", min, digits(0, half), kNonZero, digits(0, half)));
  } else {
    pieces.push_back(min + any_fraction);
  }
  if (!m.max || *m.max - m.min >= 2) {
    pieces.push_back(unsigned_range(m.min + 1, m.max ? std::optional(*m.max - 1) : std::nullopt) + any_fraction);
  }
  if (m.max && !m.max_excluded) pieces.push_back(gbnf_literal(std::to_string(*m.max)) + zero_fraction);
  return pieces;
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

std::string gbnf_number_range(const NumberBounds& bounds) {
  const auto digit_count = [](std::optional<int64_t> bound) {
    return bound ? std::to_string(magnitude(*bound)).size() : size_t{1};
  };
  const size_t places = kExactDigits - std::max(digit_count(bounds.min), digit_count(bounds.max));
  std::vector<std::string> pieces;
  if (!bounds.min || *bounds.min < 0) {
    const bool reaches_zero = !bounds.max || *bounds.max >= 0;
    Magnitudes m{};
    m.min = reaches_zero ? 0 : magnitude(*bounds.max);
    m.min_excluded = (!bounds.max || *bounds.max > 0) ? false : bounds.max_excluded;
    m.max = magnitude(bounds.min);
    m.max_excluded = bounds.min_excluded;
    const auto negative = unsigned_decimals(m, places);
    if (!negative.empty()) pieces.push_back(fmt::format("\"-\" {}", join(negative)));
  }
  if (!bounds.max || *bounds.max >= 0) {
    const bool from_zero = !bounds.min || *bounds.min < 0;
    Magnitudes m{};
    m.min = from_zero ? 0 : magnitude(*bounds.min);
    m.min_excluded = !from_zero && bounds.min_excluded;
    m.max = magnitude(bounds.max);
    m.max_excluded = bounds.max_excluded;
    const auto positive = unsigned_decimals(m, places);
    pieces.insert(pieces.end(), positive.begin(), positive.end());
  }
  return join(pieces);
}

} // namespace ridge::text
