// Samplers by name, and their order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::core {

enum class SamplerKind : uint8_t {
  penalties,   // of recent tokens
  dry,         // penalty of repeated passages
  top_n_sigma, // standard deviations below the highest logit
  top_k,
  typ_p,
  top_p,
  min_p,
  xtc, // removes all probable tokens but the least
  temperature,
  infill,     // ends fill-in-the-middle texts
  adaptive_p, // draws tokens near a target probability
};

using SamplerOrder = std::vector<SamplerKind>;

// All but infill, as declared above.
const SamplerOrder& usual_order();

std::string_view name_of(SamplerKind kind);                // "top_k"
std::span<const std::string_view> sampler_names();         // in the order of SamplerKind
bool find_sampler(std::string_view name, SamplerKind& to); // also accepts aliases: "top-k", "nucleus"
bool find_sampler(char letter, SamplerKind& to);           // llama.cpp's letter: 'k'

// Parse "top_k;temperature" and letters such as "kt". Each sampler may occur once. Throw a usage Error that names
// `flag`.
SamplerOrder parse_order(std::string_view text, std::string_view flag);
SamplerOrder parse_order_letters(std::string_view letters, std::string_view flag);
std::string order_text(const SamplerOrder& order);

} // namespace ridge::core
