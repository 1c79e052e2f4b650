// llama.cpp's converter copies these keys from generation_config.json.
#include "engine/sampling_defaults.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "engine/options.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <span>

namespace ridge::engine {
namespace {

using core::SamplerParams;

struct Param {
  std::string_view key;
  std::string_view name;
  float SamplerParams::*number = nullptr;
  int32_t SamplerParams::*count = nullptr;
};
constexpr Param kParams[] = {
    {"temp", "temp", &SamplerParams::temp},
    {"top_k", "top-k", nullptr, &SamplerParams::top_k},
    {"top_p", "top-p", &SamplerParams::top_p},
    {"min_p", "min-p", &SamplerParams::min_p},
    {"penalty_repeat", "repeat-penalty", &SamplerParams::repeat_penalty},
    {"penalty_last_n", "repeat-last-n", nullptr, &SamplerParams::repeat_last_n},
    {"xtc_probability", "xtc-probability", &SamplerParams::xtc_probability},
    {"xtc_threshold", "xtc-threshold", &SamplerParams::xtc_threshold},
    {"mirostat", "mirostat", nullptr, &SamplerParams::mirostat},
    {"mirostat_tau", "mirostat-ent", &SamplerParams::mirostat_tau},
    {"mirostat_eta", "mirostat-lr", &SamplerParams::mirostat_eta},
};

struct Step {
  core::SamplerKind kind;
  std::string_view names; // in the file, without "_" and "-", space-separated
  std::vector<std::pair<std::string_view, std::string_view>> off;
};
std::span<const Step> steps() {
  using enum core::SamplerKind;
  static const Step list[] = {
      {penalties, "penalties", {{"repeat-penalty", "1"}, {"presence-penalty", "0"}, {"frequency-penalty", "0"}}},
      {dry, "dry", {{"dry-multiplier", "0"}}},
      {top_n_sigma, "topnsigma", {{"top-n-sigma", "-1"}}},
      {top_k, "topk", {{"top-k", "0"}}},
      {typ_p, "typp typ", {{"typical", "1"}}},
      {top_p, "topp nucleus", {{"top-p", "1"}}},
      {min_p, "minp", {{"min-p", "0"}}},
      {xtc, "xtc", {{"xtc-probability", "0"}}},
      {temperature, "temperature temp", {{"temp", "1"}, {"dynatemp-range", "0"}}},
      {adaptive_p, "adaptivep", {{"adaptive-target", "-1"}}},
  };
  return list;
}

bool has_word(std::string_view words, std::string_view wanted) {
  for (size_t at = 0; at <= words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == wanted) return true;
    at = end + 1;
  }
  return false;
}

class Defaults {
 public:
  Defaults(api::SamplingOptions& options, const gguf::File& model, const Notice& notice)
      : options_(options), model_(model), notice_(notice) {}

  void take() {
    for (const Param& param : kParams) take_param(param);
    take_sequence();
  }

 private:
  const gguf::Value* find(std::string_view key) const { return model_.find(fmt::format("general.sampling.{}", key)); }
  void ignore(std::string_view key, std::string_view why) const {
    notice_(fmt::format("{}: general.sampling.{} is ignored: {}", model_.path(), key, why));
  }
  bool is_chosen(std::string_view name) const {
    return std::ranges::find(options_.chosen, name) != options_.chosen.end();
  }

  void take_param(const Param& param) {
    const gguf::Value* value = find(param.key);
    if (!value || is_chosen(param.name)) return;
    const std::optional<double> number = value->as_float();
    if (!number) return ignore(param.key, fmt::format("expected a number, found {}", gguf::name_of(value->type())));
    SamplerParams alone;
    if (param.number) {
      alone.*param.number = std::abs(*number) > std::numeric_limits<float>::max()
                                ? std::numeric_limits<float>::infinity()
                                : static_cast<float>(*number);
    } else {
      if (std::trunc(*number) != *number || std::abs(*number) > std::numeric_limits<int32_t>::max())
        return ignore(param.key, fmt::format("expected a 32-bit integer, found {}", *number));
      alone.*param.count = static_cast<int32_t>(*number);
      if (param.count == &SamplerParams::top_k) alone.top_k = std::max(alone.top_k, 0); // some files write -1 for all
    }
    try {
      core::validate(alone);
    } catch (const Error& error) {
      return ignore(param.key, error.what());
    }
    if (param.number)
      options_.params.*param.number = alone.*param.number;
    else
      options_.params.*param.count = alone.*param.count;
  }

  // Sets the order; samplers that it does not name are off.
  void take_sequence() {
    constexpr std::string_view kKey = "sequence";
    const gguf::Value* value = find(kKey);
    if (!value) return;
    const std::optional<std::string_view> text = value->as_string();
    if (!text) return ignore(kKey, fmt::format("expected a string, found {}", gguf::name_of(value->type())));
    core::SamplerOrder order, unnamed;
    for (size_t at = 0; at <= text->size();) {
      const size_t end = std::min(text->find(';', at), text->size());
      const std::string_view entry = text->substr(at, end - at);
      at = end + 1;
      std::string name;
      for (const char c : entry)
        if (c != '_' && c != '-') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (name.empty()) continue;
      const auto step = std::ranges::find_if(steps(), [&](const Step& s) { return has_word(s.names, name); });
      if (step == steps().end()) return ignore(kKey, fmt::format("unknown sampler \"{}\"", core::printable(entry, 32)));
      if (std::ranges::find(order, step->kind) == order.end()) order.push_back(step->kind);
    }
    if (order.empty()) return ignore(kKey, "it lists no sampler");
    for (const Step& step : steps()) {
      if (std::ranges::find(order, step.kind) != order.end()) continue;
      switch_off(step);
      unnamed.push_back(step.kind);
    }
    if (is_chosen("samplers") || std::ranges::is_sorted(order)) return;
    order.insert(order.end(), unnamed.begin(), unnamed.end());
    options_.params.order = std::move(order);
  }

  void switch_off(const Step& step) {
    for (const auto& [name, value] : step.off)
      if (!is_chosen(name))
        std::ranges::find(sampling_settings(), name, &SamplingSetting::name)->set(options_, std::string(value));
  }

  api::SamplingOptions& options_;
  const gguf::File& model_;
  const Notice& notice_;
};

} // namespace

std::vector<std::string> take_model_defaults(api::SamplingOptions& options, const gguf::File& model,
                                             const Notice& notice) {
  const api::SamplingOptions before = options;
  Defaults(options, model, notice).take();
  std::vector<std::string> changed;
  for (const SamplingSetting& setting : sampling_settings())
    if (setting.get(options) != setting.get(before))
      changed.push_back(fmt::format("{} {}", setting.name, setting.get(options)));
  return changed;
}

} // namespace ridge::engine
