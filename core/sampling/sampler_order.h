// The samplers by their names, and the order in which they run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::core {

enum class SamplerKind : uint8_t {
  penalties,   // of recent tokens
  dry,         // of tokens that would repeat what came before
  top_n_sigma, // keeps logits within so many standard deviations of the highest
  top_k,
  typ_p,
  top_p,
  min_p,
  xtc, // now and then removes all but the least of the probable tokens
  temperature,
  infill,     // ends a text between two others in time
  adaptive_p, // draws tokens of about a wanted probability
};

using SamplerOrder = std::vector<SamplerKind>;

// All but infill, in the order in which they are named above.
const SamplerOrder& usual_order();

std::string_view name_of(SamplerKind kind);                // "top_k"
std::span<const std::string_view> sampler_names();         // in the order of SamplerKind
bool find_sampler(std::string_view name, SamplerKind& to); // also by other usual names of it: "top-k", "nucleus"
bool find_sampler(char letter, SamplerKind& to);           // by llama.cpp's letter: 'k'

// The order that "top_k;temperature" names, or letters such as "kt", each sampler once. Throws an Error (wrong usage)
// that begins with `flag`.
SamplerOrder parse_order(std::string_view text, std::string_view flag);
SamplerOrder parse_order_letters(std::string_view letters, std::string_view flag);
std::string order_text(const SamplerOrder& order); // "top_k;temperature"

} // namespace ridge::core
