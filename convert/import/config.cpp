#include "convert/import/config.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "models/hparams.h"

#include <fmt/ranges.h>

#include <cmath>
#include <numbers>

namespace ridge::convert::import {
namespace {

using models::Architecture, models::kMaxContext, models::kMaxExperts, models::kMaxHeadDim, models::kMaxHeads,
    models::kMaxLayers, models::kMaxWidth;

constexpr int64_t kMaxVocab = 1 << 24;

// The architecture whose row of models/arches.def lists the class that the checkpoint names.
const Architecture& find_architecture(const Fields& config) {
  const Json* classes = config.find("architectures");
  const bool named = classes && classes->is_array() && !classes->empty() && (*classes)[0].is_string();
  if (!named) throw_error("{}: expected a list with the model's class", config.where("architectures"));
  const auto& name = (*classes)[0].get_ref<const std::string&>();
  std::vector<std::string_view> known;
  for (const Architecture& architecture : models::architecture_table())
    for (const std::string_view hf_class : architecture.hf_classes) {
      if (hf_class == name) return architecture;
      known.push_back(hf_class);
    }
  throw_error("{}: {} is not known; known are {}", config.where("architectures"), core::printable(name),
              fmt::join(known, ", "));
}

// Throws Error for each field that changes the computation in a way that no Program has.
void refuse_what_cannot_run(const Fields& config, const models::Checkpoint& checkpoint) {
  const auto refuse = [&](std::string_view key, std::string_view found) {
    throw_error("{}: {}: models of this kind cannot be run yet", config.where(key), found);
  };
  const std::string activation = config.find_string("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") refuse("hidden_act", core::printable(activation));
  if (config.get_number("partial_rotary_factor", 1) != 1) refuse("partial_rotary_factor", "is not 1");
  if (checkpoint.router.empty()) return;
  const std::string_view normalized = checkpoint.shares_sum_to_1;
  if (!normalized.empty() && !config.get_bool(normalized, false)) refuse(normalized, "is not true");
  if (config.get_int("decoder_sparse_step", 0, kMaxLayers, 1) != 1) refuse("decoder_sparse_step", "is not 1");
  if (const Json* dense = config.find("mlp_only_layers"); dense && !dense->empty())
    refuse("mlp_only_layers", "some layers have no experts");
}

// A sliding window makes no difference to a text that fits into it, so the file's context ends there.
void limit_to_window(const Fields& config, Config& out) {
  bool sliding = config.get_bool("use_sliding_window", out.checkpoint().slides_by_default);
  if (const Json* kinds = config.find("layer_types"); kinds && kinds->is_array()) {
    sliding = false;
    for (const Json& kind : *kinds) {
      if (!kind.is_string()) throw_error("{}: expected strings", config.where("layer_types"));
      const auto& name = kind.get_ref<const std::string&>();
      sliding |= name == "sliding_attention";
      if (name != "sliding_attention" && name != "full_attention")
        throw_error("{}: {}: models of this kind cannot be run yet", config.where("layer_types"),
                    core::printable(name));
    }
  }
  const int64_t window = config.get_int("sliding_window", 1, kMaxContext, 0);
  if (!sliding || window == 0 || window >= out.context) return;
  out.notes.push_back(fmt::format(
      "attention of this model slides over {} tokens; ridge attends to all, so the context ends there (trained: {})",
      window, out.context));
  out.context = window;
}

// Llama 3 keeps the frequencies of fast pairs, divides those of slow ones by `factor`, and blends in between
// (Grattafiori et al. 2024).
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

void read_yarn(const Fields& scaling, const std::string& prefix, double factor, gguf::Metadata& metadata) {
  metadata.set(prefix + "rope.scaling.type", "yarn");
  metadata.set(prefix + "rope.scaling.factor", static_cast<float>(factor));
  if (const auto context = scaling.find_int("original_max_position_embeddings"))
    metadata.set(prefix + "rope.scaling.original_context_length",
                 static_cast<uint32_t>(scaling.get_int("original_max_position_embeddings", 1, kMaxContext)));
  if (!scaling.get_bool("truncate", true))
    throw_error("{}: is false: models of this kind cannot be run yet", scaling.where("truncate"));
  if (scaling.find("beta_fast"))
    metadata.set(prefix + "rope.scaling.yarn_beta_fast", static_cast<float>(scaling.get_number("beta_fast", 32)));
  if (scaling.find("beta_slow"))
    metadata.set(prefix + "rope.scaling.yarn_beta_slow", static_cast<float>(scaling.get_number("beta_slow", 1)));
  // GGUF files hold a factor of the usual magnitude, which is 1 + 0.1 ln(factor).
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

// Reads rope_theta and rope_scaling, or rope_parameters, which has both in newer files.
void read_rope(const Fields& config, const std::string& prefix, Config& out, gguf::Metadata& metadata) {
  static const Json kNone = Json::object();
  const Json* newer = config.find("rope_parameters");
  const Json* older = config.find("rope_scaling");
  const Fields scaling(newer   ? *newer
                       : older ? *older
                               : kNone,
                       config.where(newer ? "rope_parameters" : "rope_scaling"));
  const double base = newer && scaling.find("rope_theta") ? scaling.get_number("rope_theta", 10000)
                                                          : config.get_number("rope_theta", 10000);
  if (!(base > 1)) throw_error("{}: is {}, expected a number above 1", config.where("rope_theta"), base);
  metadata.set(prefix + "rope.dimension_count", static_cast<uint32_t>(out.head_dim));
  metadata.set(prefix + "rope.freq_base", static_cast<float>(base));
  if (scaling.get_number("partial_rotary_factor", 1) != 1)
    throw_error("{}: is not 1: models of this kind cannot be run yet", scaling.where("partial_rotary_factor"));

  const std::string type = scaling.find_string("rope_type").value_or(scaling.find_string("type").value_or("default"));
  // "dynamic" changes nothing within the trained context, and ridge goes no further.
  if (type == "default" || type == "dynamic" || type == "none") return;
  const double factor = scaling.get_number("factor", 1);
  if (!(factor > 0)) throw_error("{}: is {}, expected a number above 0", scaling.where("factor"), factor);
  if (type == "linear") {
    metadata.set(prefix + "rope.scaling.type", "linear");
    metadata.set(prefix + "rope.scaling.factor", static_cast<float>(factor));
  } else if (type == "llama3") {
    out.rope_factors = llama3_factors(scaling, base, out.head_dim);
  } else if (type == "yarn") {
    read_yarn(scaling, prefix, factor, metadata);
  } else {
    throw_error("{}: '{}' cannot be run yet; known are linear, llama3, yarn and dynamic", scaling.where("rope_type"),
                core::printable(type));
  }
}

} // namespace

Config read_config(const std::string& folder, gguf::Metadata& metadata) {
  const Json document = read_json_file(folder, "config.json");
  if (document.is_null())
    throw_error("{}/config.json: is missing; expected the folder of a Hugging Face checkpoint", folder);
  const Fields config(document, folder + "/config.json");
  Config out;
  out.architecture = &find_architecture(config);
  refuse_what_cannot_run(config, out.checkpoint());

  out.layers = config.get_int("num_hidden_layers", 1, kMaxLayers);
  out.width = config.get_int("hidden_size", 1, kMaxWidth);
  out.heads = config.get_int("num_attention_heads", 1, kMaxHeads);
  out.kv_heads = config.get_int("num_key_value_heads", 1, out.heads, out.heads);
  if (out.heads % out.kv_heads != 0)
    throw_error("{}: {} heads cannot share {} evenly", config.where("num_key_value_heads"), out.heads, out.kv_heads);
  out.head_dim = config.get_int("head_dim", 2, kMaxHeadDim, out.width / out.heads);
  if (out.head_dim % 2 != 0) throw_error("{}: is odd ({})", config.where("head_dim"), out.head_dim);
  out.vocab = config.get_int("vocab_size", 1, kMaxVocab);
  out.context = config.get_int("max_position_embeddings", 1, kMaxContext, 2048);
  out.tied = config.get_bool("tie_word_embeddings", false);
  const char* count_key = config.find("num_local_experts") ? "num_local_experts" : "num_experts";
  if (!out.checkpoint().router.empty() && config.find(count_key)) {
    out.experts = config.get_int(count_key, 1, kMaxExperts);
    out.experts_used = config.get_int("num_experts_per_tok", 1, out.experts);
  }
  const bool own_width = config.find("moe_intermediate_size") != nullptr && out.experts > 0;
  out.ffn_width = config.get_int(own_width ? "moe_intermediate_size" : "intermediate_size", 1, 16 * kMaxWidth);
  if (const Json* quantization = config.find("quantization_config")) out.quantization = *quantization;
  limit_to_window(config, out);

  const std::string prefix = std::string(out.architecture->name) + ".";
  const auto set_int = [&](const char* key, int64_t value) {
    metadata.set(prefix + key, static_cast<uint32_t>(value));
  };
  set_int("block_count", out.layers);
  set_int("context_length", out.context);
  set_int("embedding_length", out.width);
  set_int("feed_forward_length",
          own_width ? config.get_int("intermediate_size", 1, 16 * kMaxWidth, out.ffn_width) : out.ffn_width);
  set_int("attention.head_count", out.heads);
  set_int("attention.head_count_kv", out.kv_heads);
  set_int("attention.key_length", out.head_dim);
  set_int("attention.value_length", out.head_dim);
  const double epsilon = config.get_number("rms_norm_eps", 1e-6);
  if (!(epsilon >= 0 && epsilon < 1)) throw_error("{}: is {}, expected 0 to 1", config.where("rms_norm_eps"), epsilon);
  metadata.set(prefix + "attention.layer_norm_rms_epsilon", static_cast<float>(epsilon));
  set_int("vocab_size", out.vocab);
  if (out.experts > 0) {
    set_int("expert_count", out.experts);
    set_int("expert_used_count", out.experts_used);
    if (own_width) set_int("expert_feed_forward_length", out.ffn_width);
  }
  read_rope(config, prefix, out, metadata);
  return out;
}

} // namespace ridge::convert::import
