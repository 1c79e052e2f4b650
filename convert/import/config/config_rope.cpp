// Rotary positions in config.json.
#include "convert/import/config/config.h"
#include "core/error.h"
#include "core/strings/printable.h"
#include "models/file/hparams.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ridge::convert::import {
namespace {

using models::kMaxContext;

// Keeps fast pairs, slows others by `factor`, interpolates between (Grattafiori et al. 2024).
std::vector<float> llama3_factors(const Fields& scaling, double base, int64_t dims) {
  const double factor = scaling.get_number("factor", 8), low = scaling.get_number("low_freq_factor", 1),
               high = scaling.get_number("high_freq_factor", 4);
  const auto context = static_cast<double>(scaling.get_int("original_max_position_embeddings", 1, kMaxContext, 8192));
  if (!(factor > 0 && low > 0 && high > low))
    throw_error("{}: expected factor > 0 and high_freq_factor > low_freq_factor > 0", scaling.where());
  std::vector<float> factors;
  for (int64_t pair = 0; pair < dims / 2; ++pair) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(base, 2 * static_cast<double>(pair) / static_cast<double>(dims));
    const double ramp = (context / wavelength - low) / (high - low); // 1: fast, 0: slow
    factors.push_back(static_cast<float>(ramp >= 1 ? 1 : ramp <= 0 ? factor : 1 / ((1 - ramp) / factor + ramp)));
  }
  return factors;
}

void read_yarn(const Fields& scaling, const std::string& prefix, double factor, bool own_magnitude,
               gguf::Metadata& metadata) {
  metadata.set(prefix + "rope.scaling.type", "yarn");
  metadata.set(prefix + "rope.scaling.factor", static_cast<float>(factor));
  if (const auto context = scaling.find_int("original_max_position_embeddings"))
    metadata.set(prefix + "rope.scaling.original_context_length",
                 static_cast<uint32_t>(scaling.get_int("original_max_position_embeddings", 1, kMaxContext)));
  if (!scaling.get_bool("truncate", true)) metadata.set(prefix + "rope.scaling.yarn_truncate", false);
  if (scaling.find("beta_fast"))
    metadata.set(prefix + "rope.scaling.yarn_beta_fast", static_cast<float>(scaling.get_number("beta_fast", 32)));
  if (scaling.find("beta_slow"))
    metadata.set(prefix + "rope.scaling.yarn_beta_slow", static_cast<float>(scaling.get_number("beta_slow", 1)));
  if (own_magnitude) return; // rope.scaling.yarn_log_multiplier implies it
  // GGUF: relative to the usual 1 + 0.1 ln(factor).
  const double usual = 1 + 0.1 * std::log(factor);
  const auto magnitude = [&](const char* key) { return 1 + 0.1 * scaling.get_number(key, 0) * std::log(factor); };
  double wanted = usual;
  if (scaling.find("attention_factor"))
    wanted = scaling.get_number("attention_factor", 1);
  else if (scaling.find("mscale") && scaling.find("mscale_all_dim"))
    wanted = magnitude("mscale") / magnitude("mscale_all_dim");
  if (!(wanted > 0)) throw_error("{}: expected a magnitude above 0", scaling.where());
  if (wanted != usual) metadata.set(prefix + "rope.scaling.attn_factor", static_cast<float>(wanted / usual));
}

// rope.dimension_sections: pairs per axis.
void read_sections(const Fields& scaling, const Config& config, const std::string& prefix, gguf::Metadata& metadata) {
  const Json* list = scaling.find("mrope_section");
  const auto& usual = config.checkpoint().sections;
  std::vector<uint32_t> sections(usual.begin(), usual.end());
  if (!list && usual[0] > 0) metadata.set(prefix + "rope.dimension_sections", sections);
  if (!list) return;
  sections.clear();
  if (list->is_array() && list->size() <= 4)
    for (const Json& pairs : *list)
      if (pairs.is_number_unsigned() && pairs.get<uint64_t>() < 1 << 16) sections.push_back(pairs.get<uint32_t>());
  if (sections.empty() || sections.size() != list->size())
    throw_error("{}: expected up to four pair counts", scaling.where("mrope_section"));
  sections.resize(4);
  metadata.set(prefix + "rope.dimension_sections", sections);
}

std::vector<float> read_factors(const Fields& scaling, const char* key, int64_t pairs) {
  const Json* list = scaling.find(key);
  std::vector<float> factors;
  if (list && list->is_array())
    for (const Json& factor : *list)
      if (factor.is_number() && factor.get<double>() > 0) factors.push_back(factor.get<float>());
  if (std::ssize(factors) != pairs) throw_error("{}: expected {} numbers above 0", scaling.where(key), pairs);
  return factors;
}

// Phi 3: divisors within and beyond the original context.
void read_long_rope(const Fields& scaling, const std::string& prefix, int64_t dims, Config& out,
                    gguf::Metadata& metadata) {
  const Fields config = out.fields();
  const Fields& holder = scaling.find("original_max_position_embeddings") ? scaling : config;
  const int64_t original = holder.get_int("original_max_position_embeddings", 1, kMaxContext, out.context);
  out.long_factors = read_factors(scaling, "long_factor", dims / 2);
  out.short_factors = read_factors(scaling, "short_factor", dims / 2);
  const double ratio = static_cast<double>(out.context) / static_cast<double>(original);
  const double usual = ratio > 1 ? std::sqrt(1 + std::log(ratio) / std::log(static_cast<double>(original))) : 1;
  metadata.set(prefix + "rope.scaling.type", "longrope");
  metadata.set(prefix + "rope.scaling.original_context_length", static_cast<uint32_t>(original));
  const double magnitude = scaling.get_number("short_mscale", scaling.get_number("attention_factor", usual));
  if (scaling.get_number("long_mscale", magnitude) != magnitude)
    throw_error("{}: is not short_mscale: this variant is not supported yet", scaling.where("long_mscale"));
  metadata.set(prefix + "rope.scaling.attn_factor", static_cast<float>(magnitude));
}

// A number, or a list with one for each layer, which layers of a kind must share.
double of_kind(const Config& config, const char* key, LayerKind kind, double absent) {
  const Json* list = config.fields().find(key);
  if (!list || !list->is_array()) return config.fields().get_number(key, absent);
  std::optional<double> shared;
  for (int64_t il = 0; il < config.layers; ++il) {
    if (!config.kinds.empty() && config.kinds[il] != kind) continue;
    const Json* own = il < std::ssize(*list) ? &(*list)[il] : nullptr;
    if (!own || !own->is_number() || own->get<double>() != shared.value_or(own->get<double>()))
      throw_error("{}: layer {}: expected the number of other layers of its kind", config.fields().where(key), il);
    shared = own->get<double>();
  }
  return shared.value_or(absent);
}

} // namespace

// Gemma 4: divisors select rotated pairs; layers with a window rotate all.
void read_proportional_rope(const Fields& scaling, double part, Config& out, const std::string& prefix,
                            gguf::Metadata& metadata) {
  if (scaling.get_number("factor", 1) != 1)
    throw_error("{}: is not 1: this variant is not supported yet", scaling.where("factor"));
  constexpr float kStandsStill = 1e30f;
  const int64_t head = out.count("attention.key_length") > 0 ? out.count("attention.key_length") : out.head_dim;
  const auto turning = static_cast<int64_t>(part * static_cast<double>(head) / 2);
  out.rope_factors.assign(head / 2, kStandsStill);
  std::fill_n(out.rope_factors.begin(), turning, 1.0f);
  metadata.set(prefix + "rope.dimension_count", static_cast<uint32_t>(head));
  metadata.set(prefix + "rope.dimension_count_swa", static_cast<uint32_t>(out.head_dim));
}

// From rope_theta and rope_scaling, or rope_parameters (newer, possibly per layer kind).
void read_rope(Config& out, gguf::Metadata& metadata, const std::string& prefix) {
  static const Json kNone = Json::object();
  const Fields config = out.fields();
  const Json* newer = config.find("rope_parameters");
  const Json* older = config.find("rope_scaling");
  const Fields around(newer   ? *newer
                      : older ? *older
                              : kNone,
                      config.where(newer ? "rope_parameters" : "rope_scaling"));
  const Json* full = around.find("full_attention");
  const Json* compress = around.find("compress"); // DeepSeek V4: beside "main", which has no scaling
  if (!full) full = compress;
  const Fields scaling(full ? *full : newer ? *newer : older ? *older : kNone, around.where());
  const auto checked = [&](double base) {
    if (!(base > 1)) throw_error("{}: is {}, expected a number above 1", config.where("rope_theta"), base);
    return static_cast<float>(base);
  };
  const double outer_base =
      of_kind(out, "rope_theta", LayerKind::attention, config.get_number("rotary_emb_base", 10000));
  const double base = compress ? outer_base : scaling.get_number("rope_theta", outer_base);
  metadata.set(prefix + "rope.freq_base", checked(base));
  if (const Json* sliding = around.find("sliding_attention"))
    metadata.set(prefix + "rope.freq_base_swa",
                 checked(Fields(*sliding, around.where("sliding_attention")).get_number("rope_theta", base)));
  else if (config.find("rope_local_base_freq"))
    metadata.set(prefix + "rope.freq_base_swa", checked(config.get_number("rope_local_base_freq", base)));
  else if (config.find("swa_rope_theta"))
    metadata.set(prefix + "rope.freq_base_swa", checked(config.get_number("swa_rope_theta", base)));
  else if (const Json* bases = config.find("rope_theta"); bases && bases->is_array())
    metadata.set(prefix + "rope.freq_base_swa", checked(of_kind(out, "rope_theta", LayerKind::sliding, base)));

  const double older_part = config.get_number("rotary_pct", config.get_number("rope_pct", out.checkpoint().rotated));
  const double outer = of_kind(out, "partial_rotary_factors", LayerKind::attention,
                               config.get_number("partial_rotary_factor", older_part));
  const double part = scaling.get_number("partial_rotary_factor", outer);
  if (!(part > 0 && part <= 1))
    throw_error("{}: is {}, expected a fraction of 1", config.where("partial_rotary_factor"), part);
  if (out.checkpoint().half_rope && part != 0.5)
    throw_error("{}: is {}, not 0.5: this variant is not supported yet", config.where("partial_rotary_factor"), part);
  const std::string type = scaling.find_string("rope_type").value_or(scaling.find_string("type").value_or("default"));
  if (type == "proportional") return read_proportional_rope(scaling, part, out, prefix, metadata);
  if (!out.values.contains("rope.dimension_count")) {
    const auto dims = static_cast<int64_t>(part * static_cast<double>(out.head_dim));
    if (dims < 2 || dims % 2 != 0)
      throw_error("{}: {} of {} dimensions cannot be paired", config.where("partial_rotary_factor"), dims,
                  out.head_dim);
    out.values["rope.dimension_count"] = static_cast<double>(dims);
    metadata.set(prefix + "rope.dimension_count", static_cast<uint32_t>(dims));
    if (const Json* sliding = around.find("sliding_attention"); sliding && full) {
      const double own = Fields(*sliding, around.where("sliding_attention")).get_number("partial_rotary_factor", outer);
      const auto own_dims = static_cast<int64_t>(own * static_cast<double>(out.head_dim));
      if (own_dims != dims) metadata.set(prefix + "rope.dimension_count_swa", static_cast<uint32_t>(own_dims));
    }
  }
  const int64_t dims = out.count("rope.dimension_count");
  read_sections(scaling, out, prefix, metadata);

  // "dynamic" acts beyond the trained context, which ridge does not exceed.
  if (type == "default" || type == "dynamic" || type == "none" || type == "mrope") return;
  if (type == "longrope" || type == "su") return read_long_rope(scaling, prefix, dims, out, metadata);
  const double factor = scaling.get_number("factor", 1);
  if (!(factor > 0)) throw_error("{}: is {}, expected a number above 0", scaling.where("factor"), factor);
  if (type == "linear") {
    metadata.set(prefix + "rope.scaling.type", "linear");
    metadata.set(prefix + "rope.scaling.factor", static_cast<float>(factor));
  } else if (type == "llama3") {
    out.rope_factors = llama3_factors(scaling, base, out.checkpoint().half_rope ? dims / 2 : dims);
    out.rope_factors.resize(dims / 2, 1);
  } else if (type == "yarn") {
    read_yarn(scaling, prefix, factor, out.values.contains("rope.scaling.yarn_log_multiplier") || compress, metadata);
  } else {
    throw_error("{}: '{}' is not supported; supported are linear, llama3, yarn, longrope and dynamic",
                scaling.where("rope_type"), core::printable(type));
  }
}

} // namespace ridge::convert::import
