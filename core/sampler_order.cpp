#include "core/sampler_order.h"

#include "core/error.h"
#include "core/strings/printable.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace ridge::core {
namespace {

constexpr std::array<std::string_view, 11> kNames = {"penalties", "dry", "top_n_sigma", "top_k",  "typ_p",     "top_p",
                                                     "min_p",     "xtc", "temperature", "infill", "adaptive_p"};
constexpr std::string_view kLetters = "edskypmxtia";

struct OtherName {
  std::string_view name;
  SamplerKind kind;
};
constexpr OtherName kOtherNames[] = {{"typical", SamplerKind::typ_p},
                                     {"typical_p", SamplerKind::typ_p},
                                     {"typ", SamplerKind::typ_p},
                                     {"nucleus", SamplerKind::top_p},
                                     {"temp", SamplerKind::temperature}};

void append(SamplerOrder& order, SamplerKind kind, std::string_view flag) {
  if (std::ranges::find(order, kind) != order.end())
    throw Error(fmt::format("{}: {} is listed twice", flag, name_of(kind)), Error::kUsage);
  order.push_back(kind);
}

} // namespace

const SamplerOrder& usual_order() {
  using enum SamplerKind;
  static const SamplerOrder order = {penalties, dry,   top_n_sigma, top_k,       typ_p,
                                     top_p,     min_p, xtc,         temperature, adaptive_p};
  return order;
}

std::string_view name_of(SamplerKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::span<const std::string_view> sampler_names() { return kNames; }

bool find_sampler(std::string_view name, SamplerKind& to) {
  std::string plain(name);
  std::ranges::replace(plain, '-', '_');
  if (const auto at = std::ranges::find(kNames, plain); at != kNames.end()) {
    to = static_cast<SamplerKind>(at - kNames.begin());
    return true;
  }
  const auto other = std::ranges::find(kOtherNames, plain, &OtherName::name);
  if (other == std::end(kOtherNames)) return false;
  to = other->kind;
  return true;
}

bool find_sampler(char letter, SamplerKind& to) {
  const size_t at = kLetters.find(letter);
  if (at == std::string_view::npos) return false;
  to = static_cast<SamplerKind>(at);
  return true;
}

SamplerOrder parse_order(std::string_view text, std::string_view flag) {
  SamplerOrder order;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(';', at), text.size());
    const std::string_view name = text.substr(at, end - at);
    at = end + 1;
    if (name.empty()) continue;
    SamplerKind kind;
    if (!find_sampler(name, kind))
      throw Error(
          fmt::format("{}: unknown sampler \"{}\"; expected {}", flag, printable(name, 32), fmt::join(kNames, " ")),
          Error::kUsage);
    append(order, kind, flag);
  }
  return order;
}

SamplerOrder parse_order_letters(std::string_view letters, std::string_view flag) {
  SamplerOrder order;
  for (const char letter : letters) {
    SamplerKind kind;
    if (!find_sampler(letter, kind))
      throw Error(fmt::format("{}: unknown sampler letter \"{}\"; the letters {} stand for {}", flag,
                              printable(std::string_view(&letter, 1), 4), kLetters, fmt::join(kNames, " ")),
                  Error::kUsage);
    append(order, kind, flag);
  }
  return order;
}

std::string order_text(const SamplerOrder& order) {
  std::vector<std::string_view> names;
  for (const SamplerKind kind : order) names.push_back(name_of(kind));
  return fmt::format("{}", fmt::join(names, ";"));
}

} // namespace ridge::core
