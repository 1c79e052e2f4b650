// All scaling methods change only the pairs' frequencies and a common magnitude:
//      linear   divides all frequencies (Chen et al. 2023).
//      YaRN     keeps fast pairs, divides slow ones, blends between, and scales the result (Peng et al. 2023).
//      Llama 3  has divisors in rope_freqs.weight; huge ones stop pairs that must not rotate.
//      LongRoPE has two such tensors, one for contexts beyond the original (Ding et al. 2024).

#include "models/blocks/rope.h"

#include "core/error.h"
#include "core/strings/printable.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>

namespace ridge::models {
namespace {

double pair_of_turns(double turns, double base, int64_t dims, double original_context) {
  return static_cast<double>(dims) * std::log(original_context / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
}

// 1 for fast pairs, 0 for slow ones.
double yarn_blend(int64_t pair, double low, double high) {
  return 1 - std::clamp((static_cast<double>(pair) - low) / std::max(0.001, high - low), 0.0, 1.0);
}

// YaRN's magnitude for a context `factor` times longer.
double yarn_magnitude(double factor, double multiplier) {
  return factor > 1 ? 1 + 0.1 * multiplier * std::log(factor) : 1;
}

class Reader {
 public:
  Reader(const gguf::File& file, const Hparams& hparams) : file_(file), hparams_(hparams) {}

  double positive(std::string_view name, double fallback) const {
    return check_positive(hparams_.key(name), hparams_.get_float(name, fallback));
  }
  std::pair<double, std::string_view> factor() const {
    constexpr std::string_view kFactor = "rope.scaling.factor";
    const std::string key = hparams_.key("rope.scaling.type");
    const std::string_view type = file_.get_string(key, "");
    if (type != "" && type != "none" && type != "linear" && type != "yarn" && type != "longrope")
      throw_error("{}: {} is '{}'; expected none, linear, yarn or longrope", file_.path(), key, core::printable(type));
    double factor = hparams_.get_float(file_.find(hparams_.key(kFactor)) ? kFactor : "rope.scale_linear", 1);
    if (factor == 0) factor = 1; // older converters write 0
    check_positive(hparams_.key(kFactor), factor);
    return {type == "none" ? 1 : factor, type};
  }
  std::vector<float> divisors(const std::string& name, int64_t pairs) const {
    const gguf::Tensor* tensor = file_.find_tensor(name);
    if (!tensor) return {};
    if (static_cast<uint32_t>(tensor->type) != static_cast<uint32_t>(quant::Type::F32) || tensor->weights() < pairs)
      throw_error("{}: tensor {}: expected {} F32 values", file_.path(), name, pairs);
    std::vector<float> factors(pairs);
    std::memcpy(factors.data(), tensor->data.data(), factors.size() * sizeof(float));
    for (const float factor : factors)
      if (!(factor > 0)) throw_error("{}: tensor {} contains {}, expected factors above 0", file_.path(), name, factor);
    return factors;
  }

 private:
  double check_positive(const std::string& key, double value) const {
    if (!(value > 0 && std::isfinite(value)))
      throw_error("{}: {} is {}, expected a number above 0", file_.path(), key, value);
    return value;
  }

  const gguf::File& file_;
  const Hparams& hparams_;
};

std::vector<uint8_t> axes_of_pairs(size_t pairs, RopeAxes axes, std::span<const int64_t> sections) {
  int64_t all = 0;
  for (const int64_t section : sections) {
    if (section < 0 || section > 1 << 20) throw_error("rope.dimension_sections has a section of {} pairs", section);
    all += section;
  }
  if (all == 0) throw_error("rope.dimension_sections: all sections are empty");
  std::vector<uint8_t> of_pairs(pairs);
  for (size_t pair = 0; pair < pairs; ++pair) {
    int64_t at = static_cast<int64_t>(pair) % all;
    if (axes == RopeAxes::interleaved) {
      of_pairs[pair] = at < 3 * sections[at % 3] ? at % 3 : 3;
    } else {
      while (of_pairs[pair] < 3 && at >= sections[of_pairs[pair]]) at -= sections[of_pairs[pair]++];
    }
  }
  return of_pairs;
}

constexpr uint8_t kFourthAxis = 3; // text has position 0 on it

} // namespace

core::RopeTable make_rope_table(const gguf::File& file, const Hparams& hparams, const RopeSpec& spec) {
  const Reader read(file, hparams);
  const auto dims = static_cast<double>(spec.dims);
  const double base = spec.base ? *spec.base : read.positive("rope.freq_base", 10000);
  const auto [file_factor, type] = read.factor();
  const double factor = !spec.scaling ? 1 : spec.divisor.value_or(file_factor);
  const auto context = static_cast<double>(hparams.original_context());
  const bool yarn = spec.scaling && type == "yarn";
  const double multiplier = hparams.get_float("rope.scaling.yarn_log_multiplier", 0);

  core::RopeTable table;
  table.style = spec.style;
  table.span = spec.span;
  table.magnitude = spec.scaling ? static_cast<float>(read.positive("rope.scaling.attn_factor", 1)) : 1;
  double low = 0, high = 0, extrapolation = 0;
  if (yarn) {
    low = pair_of_turns(read.positive("rope.scaling.yarn_beta_fast", 32), base, spec.dims, context);
    high = pair_of_turns(read.positive("rope.scaling.yarn_beta_slow", 1), base, spec.dims, context);
    // A key of ridge: gpt-oss blends between fractional pairs.
    if (hparams.get_bool("rope.scaling.yarn_truncate", true)) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(0.0, low);
    high = std::min(dims - 1, high);
    extrapolation = hparams.get_float("rope.scaling.yarn_ext_factor", 1);
    // The magnitude depends on the file's factor, even if the layer has another.
    table.magnitude *= static_cast<float>(yarn_magnitude(file_factor, 1) / yarn_magnitude(file_factor, multiplier));
    if (factor != file_factor)
      table.magnitude *= static_cast<float>((1 + 0.1 * std::log(factor)) / (1 + 0.1 * std::log(file_factor)));
  }
  if (spec.axes != RopeAxes::one)
    table.axes = axes_of_pairs(spec.dims / 2, spec.axes, hparams.ints("rope.dimension_sections", 4));
  const auto frequencies = [&](const std::vector<float>& divisors) {
    std::vector<float> made;
    for (int64_t pair = 0; pair < spec.dims / 2; ++pair) {
      const double divisor = divisors.empty() ? 1 : divisors[pair];
      const double plain = std::pow(base, -2.0 * static_cast<double>(pair) / dims) / divisor;
      const double blend = yarn ? extrapolation * yarn_blend(pair, low, high) : 0;
      made.push_back(static_cast<float>(plain / factor * (1 - blend) + plain * blend));
    }
    for (size_t pair = 0; pair < table.axes.size(); ++pair)
      if (table.axes[pair] == kFourthAxis && spec.axes != RopeAxes::numbered) made[pair] = 0;
    return made;
  };
  std::vector<float> divisors, for_long;
  if (spec.factors) {
    divisors = read.divisors("rope_freqs.weight", spec.dims / 2);
    if (divisors.empty()) {
      divisors = read.divisors("rope_factors_short.weight", spec.dims / 2);
      for_long = read.divisors("rope_factors_long.weight", spec.dims / 2);
    }
  }
  table.inverse_frequency = frequencies(divisors);
  if (divisors != for_long && !for_long.empty()) {
    table.long_inverse_frequency = frequencies(for_long);
    table.long_above = hparams.original_context();
  }
  return table;
}

} // namespace ridge::models
