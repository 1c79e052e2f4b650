#include "measure/bench_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::measure {

std::string BenchRow::test() const {
  std::string name = prompt > 0            ? fmt::format("pp{}", prompt)
                     : verified_tokens > 0 ? fmt::format("vf{}", verified_tokens)
                                           : fmt::format("tg{}", generated);
  if (acceptance >= 0) name += fmt::format(" {} {}", draft_heads.empty() ? "guess" : draft_heads, acceptance);
  if (streams > 1) name += fmt::format(" x{}", streams);
  if (depth > 0) name += fmt::format(" @ d{}", depth);
  return name;
}

double BenchRow::median_seconds() const {
  std::vector<double> sorted = seconds;
  std::ranges::sort(sorted);
  const size_t n = sorted.size();
  return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double BenchRow::rate() const { return static_cast<double>(tokens()) / median_seconds(); }

double BenchRow::rate_deviation() const {
  const auto n = static_cast<double>(seconds.size());
  double mean = 0, squares = 0;
  for (const double s : seconds) mean += static_cast<double>(tokens()) / s / n;
  for (const double s : seconds) squares += std::pow(static_cast<double>(tokens()) / s - mean, 2);
  return n > 1 ? std::sqrt(squares / (n - 1)) : 0;
}

} // namespace ridge::measure
