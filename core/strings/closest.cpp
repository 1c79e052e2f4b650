#include "core/strings/closest.h"

#include "core/strings/lower.h"
#include "core/strings/printable.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::core {
namespace {

constexpr size_t kLongest = 100; // time is the product of lengths

// Damerau-Levenshtein.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string letters(std::string_view word) {
  std::string kept = lower(word);
  std::erase_if(kept, [](char c) { return c == '-' || c == '_'; });
  return kept;
}

} // namespace

std::string closest(std::string_view word, std::span<const std::string> known) {
  if (word.size() > kLongest) return {};
  const std::string wanted = letters(word);
  const std::string* best = nullptr;
  size_t least = std::max<size_t>(1, wanted.size() / 3) + 1;
  for (const std::string& each : known) {
    if (wanted.size() < 2 || each.size() > kLongest) continue;
    const std::string other = letters(each);
    const size_t differ = other.starts_with(wanted) ? other != wanted : distance(wanted, other);
    if (differ < least) best = &each, least = differ;
  }
  return best ? *best : "";
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  const std::string near = closest(word, known);
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", printable(near, 300));
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  return did_you_mean(word, std::vector<std::string>(known.begin(), known.end()));
}

} // namespace ridge::core
