#include "measure/count_list.h"

#include "core/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace ridge::measure {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

} // namespace

std::vector<int64_t> parse_counts(const std::string& text, const char* flag, int64_t least, int64_t most) {
  constexpr size_t kMax = 1000;
  std::vector<int64_t> counts;
  for (const std::string& part : split(text)) {
    const auto refuse = [&](const char* why) {
      throw Error(
          fmt::format("{}: '{}' {}; expected a form like 512, 512,1024, 128-512+128 or 128-1024*2", flag, part, why),
          Error::kUsage);
    };
    const char *at = part.data(), *const end = at + part.size();
    const auto number = [&] {
      int64_t value = 0;
      const auto [stop, problem] = std::from_chars(at, end, value);
      if (problem != std::errc() || *at == '-') refuse("is not a count");
      at = stop;
      return value;
    };
    const int64_t first = number();
    int64_t last = first, step = 1;
    bool multiply = false;
    if (at != end && *at == '-') {
      ++at;
      last = number();
      if (at != end && (*at == '+' || *at == '*')) {
        multiply = *at++ == '*';
        step = number();
      }
    }
    if (at != end) refuse("is not a count");
    if (first < least || last > most) refuse(fmt::format("is outside {} to {}", least, most).c_str());
    if (last < first || step < 1 || step > most || (multiply && (step < 2 || first < 1)))
      refuse("is not a valid range");
    for (int64_t value = first; value <= last; value = multiply ? value * step : value + step) {
      counts.push_back(value);
      if (counts.size() > kMax) refuse("has more than 1000 counts");
    }
  }
  return counts;
}

std::vector<std::string> parse_words(const std::string& text, const char* flag, const std::vector<std::string>& known) {
  std::vector<std::string> words = split(text);
  for (const std::string& word : words)
    if (std::ranges::find(known, word) == known.end())
      throw Error(fmt::format("{}: '{}', expected {}", flag, word, fmt::join(known, " or ")), Error::kUsage);
  return words;
}

} // namespace ridge::measure
