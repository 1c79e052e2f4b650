// Every scaling method in use changes only the angular frequency of each pair and a common magnitude. So all of them
// give one table; the angle is position * inverse_frequency[pair].
//   linear   divides all frequencies by the factor (Chen et al. 2023).
//   YaRN     leaves fast pairs, divides slow ones, blends in between, and scales the result (Peng et al. 2023).
//   Llama 3  divides each frequency by a factor that the file has in the tensor rope_freqs.weight.

#include "models/rope.h"

#include "core/error.h"
#include "core/strings/printable.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace ridge::models {
namespace {

// The pair that turns `turns` times over the original context (a real number).
double pair_of_turns(double turns, double base, int64_t dims, double original_context) {
  return static_cast<double>(dims) * std::log(original_context / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
}

// Weight of the unscaled frequency: 1 for fast pairs, 0 for slow ones.
double yarn_blend(int64_t pair, double low, double high) {
  return 1 - std::clamp((static_cast<double>(pair) - low) / std::max(0.001, high - low), 0.0, 1.0);
}

} // namespace

core::RopeTable make_rope_table(const gguf::File& file, const std::string& arch, int64_t dims, core::RopeStyle style,
                                bool factors) {
  const auto key = [&](const char* name) { return arch + ".rope." + name; };
  const auto check_positive = [&](const std::string& name, double value) {
    if (!(value > 0 && std::isfinite(value)))
      throw_error("{}: {} is {}, expected a number above 0", file.path(), name, value);
    return value;
  };
  const auto positive = [&](const std::string& name, double fallback) {
    return check_positive(name, file.get_float(name, fallback));
  };

  const double base = positive(key("freq_base"), 10000);
  const std::string_view type = file.get_string(key("scaling.type"), "");
  double factor = 1;
  if (file.find(key("scaling.factor"))) {
    factor = file.get_float(key("scaling.factor"), 1);
    if (factor == 0) factor = 1; // older converters write 0 for no scaling
  } else if (file.find(key("scale_linear"))) {
    factor = file.get_float(key("scale_linear"), 1);
  }
  check_positive(key("scaling.factor"), factor);
  const bool yarn = type == "yarn";
  if (!yarn && type != "" && type != "none" && type != "linear")
    throw_error("{}: {} is '{}'; known are none, linear and yarn", file.path(), key("scaling.type"),
                core::printable(type));
  if (type == "none") factor = 1;

  std::vector<float> divisors(dims / 2, 1.0f); // Llama 3 factors
  if (const gguf::Tensor* tensor = factors ? file.find_tensor("rope_freqs.weight") : nullptr) {
    if (static_cast<uint32_t>(tensor->type) != static_cast<uint32_t>(quant::Type::F32) || tensor->weights() != dims / 2)
      throw_error("{}: tensor rope_freqs.weight: expected {} F32 values", file.path(), dims / 2);
    std::memcpy(divisors.data(), tensor->data.data(), divisors.size() * sizeof(float));
    for (float divisor : divisors)
      if (!(divisor > 0))
        throw_error("{}: tensor rope_freqs.weight holds {}, expected factors above 0", file.path(), divisor);
  }

  core::RopeTable table;
  table.style = style;
  table.magnitude = static_cast<float>(positive(key("scaling.attn_factor"), 1));
  double low = 0, high = 0, extrapolation = 0;
  if (yarn) {
    const double context =
        positive(key("scaling.original_context_length"), file.get_float(arch + ".context_length", 2048));
    low = std::max(0.0, std::floor(pair_of_turns(positive(key("scaling.yarn_beta_fast"), 32), base, dims, context)));
    high = std::min(static_cast<double>(dims - 1),
                    std::ceil(pair_of_turns(positive(key("scaling.yarn_beta_slow"), 1), base, dims, context)));
    extrapolation = file.get_float(key("scaling.yarn_ext_factor"), 1);
    table.magnitude *= static_cast<float>(1 + 0.1 * std::log(factor));
  }
  for (int64_t pair = 0; pair < dims / 2; ++pair) {
    const double plain = std::pow(base, -2.0 * static_cast<double>(pair) / static_cast<double>(dims)) / divisors[pair];
    const double blend = yarn ? extrapolation * yarn_blend(pair, low, high) : 0;
    table.inverse_frequency.push_back(static_cast<float>(plain / factor * (1 - blend) + plain * blend));
  }
  return table;
}

void stop_unused_axes(core::RopeTable& table, std::span<const int64_t> sections) {
  int64_t all = 0;
  for (const int64_t section : sections) {
    if (section < 0 || section > 1 << 20) throw_error("rope.dimension_sections has a section of {} pairs", section);
    all += section;
  }
  if (all == 0) throw_error("rope.dimension_sections: all sections are empty");
  for (size_t pair = 0; pair < table.inverse_frequency.size(); ++pair) {
    const int64_t at = static_cast<int64_t>(pair) % all;
    if (at >= 3 * sections[at % 3]) table.inverse_frequency[pair] = 0;
  }
}

} // namespace ridge::models
