#include "core/units.h"

#include "core/error.h"

#include <array>
#include <cctype>
#include <charconv>

namespace ridge::core {

std::string human_bytes(double bytes) {
  if (bytes >= 1e12) return fmt::format("{:.2f} TB", bytes / 1e12);
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.2f} MB", bytes / 1e6);
  if (bytes >= 1e3) return fmt::format("{:.2f} kB", bytes / 1e3);
  return fmt::format("{:.0f} B", bytes);
}

std::string human_seconds(double seconds) {
  if (seconds < 59.5) return fmt::format("{:.{}f} s", seconds, seconds < 9.95 ? 1 : 0);
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  return whole < 3600 ? fmt::format("{} min {:02} s", whole / 60, whole % 60)
                      : fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

uint64_t parse_bytes(const std::string& text, const char* flag) {
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit;
  for (const char* c = end; problem == std::errc() && c != text.data() + text.size(); ++c)
    unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  double factor = unit.empty() || unit == "b" ? 1 : 0;
  constexpr std::array kPrefixes = {'k', 'm', 'g', 't'};
  double binary = 1, decimal = 1;
  for (const char prefix : kPrefixes) {
    binary *= 1024;
    decimal *= 1000;
    if (unit == std::string(1, prefix) || unit == std::string(1, prefix) + "ib") factor = binary;
    if (unit == std::string(1, prefix) + "b") factor = decimal;
  }
  if (problem != std::errc() || factor == 0 || !(number > 0) || number * factor > 1e18)
    throw Error(
        fmt::format("{}: '{}' is not a size; expected one like 4.2GiB, 4200MB or a number of bytes", flag, text),
        Error::kUsage);
  return static_cast<uint64_t>(number * factor);
}

} // namespace ridge::core
