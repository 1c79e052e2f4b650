#include "server/requests/sampling_fields.h"

#include "core/error.h"
#include "server/json/api_error.h"

#include <algorithm>
#include <cmath>

namespace ridge::server {
namespace {

// DRY searches them at each token of a prompt.
constexpr size_t kMaxBreakers = 32, kLongestBreaker = 64; // bytes

// Takes 64 bits, signed or unsigned; -1 means a random seed. Sampler seeds have 63 bits.
std::optional<int64_t> seed_of(const Fields& body) {
  const Json* given = body.find("seed");
  if (!given) return std::nullopt;
  if (given->is_number_integer()) {
    const int64_t seed = given->get<int64_t>(); // unsigned values keep their bits
    const bool fresh = seed == -1 && !given->is_number_unsigned();
    return fresh ? seed : seed & INT64_MAX;
  }
  return body.integer("seed", -1, int64_t{1} << 53);
}

void take_float(const Fields& body, const char* name, float& value, double lowest, double highest) {
  if (const auto given = body.number(name, lowest, highest)) value = static_cast<float>(*given);
}

void take_count(const Fields& body, const char* name, int32_t& value, int64_t lowest, int64_t highest = INT32_MAX) {
  if (const auto given = body.integer(name, lowest, highest)) value = static_cast<int32_t>(*given);
}

void take_breakers(const Fields& body, core::SamplerParams& params) {
  constexpr const char* kName = "dry_sequence_breakers";
  const Json* given = body.find(kName);
  if (!given) return;
  if (!given->is_array() || given->empty())
    throw_invalid(body.path_of(kName), "{}: expected a list of strings that are not empty", body.path_of(kName));
  params.dry.breakers = body.texts(kName, kMaxBreakers);
  if (std::ranges::any_of(params.dry.breakers, [](const auto& text) { return text.size() > kLongestBreaker; }))
    throw_invalid(body.path_of(kName), "{}: a string can have at most {} bytes", body.path_of(kName), kLongestBreaker);
}

void take_diffusion(const Fields& body, core::DiffusionParams& params) {
  if (const auto steps = body.integer("diffusion_steps", 0, INT32_MAX)) params.steps = *steps;
  if (const auto block = body.integer("diffusion_block", -1, INT32_MAX)) params.block = *block;
  const Json* given = body.find("diffusion_order");
  if (!given) return;
  const auto order = core::fill_order_of_name(given->is_string() ? given->get<std::string>() : "");
  if (!order)
    throw_invalid(body.path_of("diffusion_order"), "{}: expected confidence, margin, entropy or random",
                  body.path_of("diffusion_order"));
  params.order = *order;
}

// Takes names, or a string of llama.cpp's letters.
void take_order(const Fields& body, core::SamplerParams& params) {
  const Json* given = body.find("samplers");
  if (!given || (given->is_array() && given->empty()) || *given == "") return;
  const std::string path = body.path_of("samplers");
  try {
    if (given->is_string()) {
      params.order = core::parse_order_letters(given->get_ref<const std::string&>(), path);
      return;
    }
    std::string names;
    for (const std::string& name : body.texts("samplers", core::sampler_names().size()))
      names += (names.empty() ? "" : ";") + name;
    params.order = core::parse_order(names, path);
  } catch (const Error& error) {
    throw_invalid(path, "{}", error.what());
  }
}

// Off by default.
void take_rarer(const Fields& body, core::SamplerParams& params) {
  take_float(body, "dry_multiplier", params.dry.multiplier, 0, 1000);
  take_float(body, "dry_base", params.dry.base, -1000, 1000);
  if (params.dry.base < 1) params.dry.base = core::DryParams{}.base; // as llama.cpp does
  take_count(body, "dry_allowed_length", params.dry.allowed_length, 0);
  take_count(body, "dry_penalty_last_n", params.dry.last_n, -1);
  take_breakers(body, params);
  take_float(body, "top_n_sigma", params.top_n_sigma, -1000, 1000);
  take_float(body, "xtc_probability", params.xtc_probability, 0, 1);
  take_float(body, "xtc_threshold", params.xtc_threshold, 0, 1);
  take_float(body, "dynatemp_range", params.dynatemp_range, 0, 100);
  take_float(body, "dynatemp_exponent", params.dynatemp_exponent, 0, 100);
  take_count(body, "mirostat", params.mirostat, 0, 2);
  take_float(body, "mirostat_tau", params.mirostat_tau, 0, 1000);
  take_float(body, "mirostat_eta", params.mirostat_eta, 0, 1000);
  take_float(body, "adaptive_target", params.adaptive_target, -1, 1);
  take_float(body, "adaptive_decay", params.adaptive_decay, 0, 0.99);
  take_count(body, "min_keep", params.min_keep, 0);
  take_order(body, params);
  take_diffusion(body, params.diffusion);
}

} // namespace

void take_numbers(const Fields& body, core::SamplerParams& params) {
  const auto take = [&](const char* name, float& value, double lowest, double highest) {
    if (const auto given = body.number(name, lowest, highest)) value = static_cast<float>(*given);
  };
  take("temperature", params.temp, 0, 100);
  take("top_p", params.top_p, 0, 1);
  take("min_p", params.min_p, 0, 1);
  take("typical_p", params.typical_p, 0, 1);
  take("presence_penalty", params.presence_penalty, -100, 100);
  take("frequency_penalty", params.frequency_penalty, -100, 100);
  for (const char* name : {"repeat_penalty", "repetition_penalty"}) {
    take(name, params.repeat_penalty, 0, 100);
    if (params.repeat_penalty == 0) params.repeat_penalty = 1; // Ollama's value for off
  }
  if (const auto k = body.integer("top_k", -1, INT32_MAX))
    params.top_k = static_cast<int32_t>(std::max<int64_t>(0, *k));
  if (const auto last = body.integer("repeat_last_n", -1, INT32_MAX))
    params.repeat_last_n = static_cast<int32_t>(*last);
  if (const auto seed = seed_of(body)) params.seed = *seed;
  take_rarer(body, params);
}

std::vector<float> adapter_scales(const Json& list, const std::string& path, size_t adapters) {
  constexpr double kMaxScale = 1000;
  if (!list.is_array()) throw_invalid(path, "{}: expected a list such as [{{\"id\": 0, \"scale\": 1}}]", path);
  if (adapters == 0 && !list.empty())
    throw_invalid(path, "{}: the model has no LoRA adapters; start the server with --lora FILE", path);
  std::vector<float> scales(adapters, 0);
  std::vector<bool> named(adapters, false);
  for (size_t i = 0; i < list.size(); ++i) {
    const Fields one(list[i], fmt::format("{}[{}]", path, i));
    one.required("id");
    one.required("scale");
    const int64_t id = *one.integer("id", 0, static_cast<int64_t>(adapters) - 1);
    if (named[id]) throw_invalid(one.path_of("id"), "{}: adapter {} is listed twice", one.path_of("id"), id);
    named[id] = true;
    scales[id] = static_cast<float>(*one.number("scale", -kMaxScale, kMaxScale));
  }
  return scales;
}

void take_adapters(const Fields& body, size_t adapters, api::SamplingOptions& sampling) {
  if (const Json* list = body.find("lora"))
    sampling.adapter_scales = adapter_scales(*list, body.path_of("lora"), adapters);
}

} // namespace ridge::server
