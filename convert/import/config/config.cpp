#include "convert/import/config/config.h"

#include "convert/import/config/expressions.h"
#include "convert/import/config/names.h"
#include "core/error.h"
#include "core/strings/printable.h"
#include "models/file/hparams.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace ridge::convert::import {
namespace {

// EAGLE-3 heads may name a language model's class.
bool is_eagle_config(const Json& document) {
  return document.contains("draft_vocab_size") && document.value("num_hidden_layers", Json()) == 1;
}

using models::Architecture, models::FieldRule, models::Kind, models::kMaxContext, models::kMaxExperts,
    models::kMaxHeadDim, models::kMaxHeads, models::kMaxLayers, models::kMaxWidth, models::Only;

constexpr int64_t kMaxVocab = 1 << 24;
constexpr double kMaxCount = 1e9;

constexpr auto kShared = std::to_array<FieldRule>({
    {"feed_forward_length", Kind::count, "block_ff_dim | intermediate_size | n_inner | hidden_dim | mlp_hidden_size"},
    {"expert_feed_forward_length", Kind::count, "moe_intermediate_size", {}, Only::experts},
    {"expert_shared_feed_forward_length",
     Kind::count,
     "shared_expert_intermediate_size | moe_shared_expert_intermediate_size | shared_intermediate_size",
     {},
     Only::experts},
    {"attention.layer_norm_rms_epsilon", Kind::real, "rms_norm_eps | norm_eps | layer_norm_epsilon", 1e-6},
});

std::string class_of(const Json& document) {
  const auto classes = document.find("architectures");
  const bool named = classes != document.end() && classes->is_array() && !classes->empty() && (*classes)[0].is_string();
  return named ? (*classes)[0].get<std::string>() : "";
}

// By class, from models/arches.def.
const Architecture& find_architecture(const Fields& fields, const std::string& name, int64_t experts) {
  if (name.empty()) throw_error("{}: expected a list with the model's class", fields.where("architectures"));
  std::vector<std::string_view> known;
  for (const Architecture& architecture : models::architecture_table())
    for (const std::string_view hf_class : architecture.hf_classes) {
      const std::string_view only_class = hf_class.substr(0, hf_class.find(' '));
      if (std::ranges::find(known, only_class) == known.end()) known.push_back(only_class);
      if (only_class != name) continue;
      if (only_class == hf_class) return architecture;
      if ((experts > 0) == hf_class.ends_with(" with experts")) return architecture;
    }
  throw_error("{}: unsupported model class {}; supported are {}", fields.where("architectures"), core::printable(name),
              fmt::join(known, ", "));
}

bool is_known(std::string_view hf_class) {
  return std::ranges::any_of(models::architecture_table(), [&](const Architecture& architecture) {
    return std::ranges::any_of(architecture.hf_classes,
                               [&](std::string_view known) { return known.substr(0, known.find(' ')) == hf_class; });
  });
}

// "qwen3_moe": Qwen3MoeForCausalLM. Empty: unknown.
std::string class_of_type(std::string_view type) {
  const auto plain = [](std::string_view name) {
    std::string made;
    for (const char c : name)
      if (c != '_') made += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return made;
  };
  for (const Architecture& architecture : models::architecture_table())
    for (const std::string_view known : architecture.hf_classes)
      if (const size_t end = known.find("ForCausalLM");
          end != std::string_view::npos && plain(known.substr(0, end)) == plain(type))
        return std::string(known.substr(0, known.find(' ')));
  return "";
}

// Models that also speak have the one that reads and writes text in thinker_config.
Json without_talker(const Json& document) {
  const auto thinker = document.find("thinker_config");
  if (thinker == document.end() || !thinker->is_object()) return document;
  Json made = document;
  made.erase("thinker_config");
  made.update(*thinker);
  made["architectures"] = document.value("architectures", Json());
  return made;
}

Json flattened(const Json& whole) {
  const Json document = without_talker(whole);
  if (is_eagle_config(document) && class_of(document) == "LlamaForCausalLM") {
    Json head = document;
    head["architectures"] = {"LlamaForCausalLMEagle3"};
    return head;
  }
  for (const char* key : {"text_config", "llm_config", "lfm", "transformer_layer_config"}) {
    const auto inner = document.find(key);
    if (inner == document.end() || !inner->is_object()) continue;
    Json outer = document;
    outer.erase(key);
    // For these keys, the outer value has priority.
    const Json around = outer;
    outer.update(*inner);
    for (const char* own : {"architectures", "tie_word_embeddings"})
      if (around.contains(own)) outer[own] = around[own];
    // Generic wrapper classes do not identify the model.
    if (!is_known(class_of(around))) {
      std::string own = class_of(*inner);
      if (const auto type = inner->find("model_type"); own.empty() && type != inner->end() && type->is_string())
        own = class_of_type(type->get<std::string>());
      if (!own.empty()) outer["architectures"] = {own};
    }
    add_defaults(outer);
    return outer;
  }
  return document;
}

// Throws Error for fields that change the computation beyond the Program.
void check_supported(const Config& config) {
  const Fields fields = config.fields();
  const auto refuse = [&](std::string_view key, std::string_view found) {
    throw_error("{}: {}: this variant is not supported yet", fields.where(key), found);
  };
  for (const char* key : {"hidden_activation", "hidden_act", "mlp_hidden_act", "activation_function"}) {
    const auto found = fields.find_string(key);
    if (!found) continue;
    const std::string activation = *found == "swish" ? "silu" : *found;
    bool known = false;
    for_parts(config.checkpoint().activation, '|', [&](std::string_view name) { known |= name == activation; });
    if (!known) refuse(key, core::printable(*found));
    break;
  }
  for (const models::Checkpoint* rules = &config.checkpoint(); rules; rules = rules->base)
    for (const models::FixedField& fixed : rules->fixed) {
      if (!config.applies(fixed.only)) continue;
      const double found = config.evaluate(fixed.field).value_or(fixed.absent);
      if (found != fixed.value) refuse(fixed.field, fmt::format("is {}, not {}", found, fixed.value));
    }
  if (const Json* kinds = fields.find("mlp_layer_types"); kinds && kinds->is_array()) {
    const auto first = std::ranges::find_if(*kinds, [](const Json& kind) { return kind != "dense"; });
    if (std::find(first, kinds->end(), "dense") != kinds->end()) refuse("mlp_layer_types", "dense layers after others");
  }
  if (const Json* dense = fields.find("mlp_only_layers"); config.experts > 0 && dense && !dense->empty())
    refuse("mlp_only_layers", "some layers have no experts");
}

// Within the window, a sliding window has no effect, so it limits the context.
void limit_to_window(Config& config) {
  const Fields fields = config.fields();
  const int64_t window = fields.get_int("sliding_window", 0, kMaxContext, 0);
  const bool sliding = config.kinds.empty()
                           ? fields.get_bool("use_sliding_window", config.checkpoint().slides_by_default)
                           : std::ranges::find(config.kinds, LayerKind::sliding) != config.kinds.end();
  if (!sliding || window == 0 || window >= config.context) return;
  config.notes.push_back(fmt::format(
      "this model has a sliding window of {} tokens that ridge does not apply, so the context ends there (trained: {})",
      window, config.context));
  config.context = window;
}

// The first field that exists, else the first name.
const char* named(const Fields& fields, std::initializer_list<const char*> names) {
  const auto found = std::ranges::find_if(names, [&](const char* name) { return fields.find(name) != nullptr; });
  return found == names.end() ? *names.begin() : *found;
}

void read_heads(Config& config) {
  const Fields fields = config.fields();
  if (!config.checkpoint().attention) return;
  config.heads = fields.get_int(named(fields, {"num_attention_heads", "n_head", "n_heads", "num_heads"}), 1, kMaxHeads);
  if (const auto own = config.evaluate(config.checkpoint().kv_heads.empty() ? "absent" : config.checkpoint().kv_heads))
    config.kv_heads = static_cast<int64_t>(*own);
  else
    config.kv_heads =
        fields.get_int(named(fields, {"num_key_value_heads", "n_kv_heads"}), 1, config.heads, config.heads);
  if (config.kv_heads < 1 || config.heads % config.kv_heads != 0)
    throw_error("{}: {} heads cannot share {} evenly", fields.where("num_key_value_heads"), config.heads,
                config.kv_heads);
  const char* key = fields.find("head_dim") || !fields.find("attention_head_dim") ? "head_dim" : "attention_head_dim";
  config.head_dim = fields.get_int(key, 2, kMaxHeadDim, config.width / config.heads);
  if (config.head_dim % 2 != 0) throw_error("{}: is odd ({})", fields.where(key), config.head_dim);
}

// One number per layer from a list, or from a list of words to compare.
void set_each(Config& config, gguf::Metadata& metadata, const std::string& key, const FieldRule& rule) {
  const size_t equals = std::min(rule.fields.find('='), rule.fields.size());
  const std::string_view field = trimmed(rule.fields.substr(0, equals));
  const auto list = config.document->find(field);
  if (list == config.document->end()) return;
  if (list->is_number() && rule.kind == Kind::reals) {
    config.values.emplace(rule.key, 0);
    return metadata.set(key, std::vector<float>(config.layers + config.drafts, list->get<float>()));
  }
  if (!list->is_array()) return; // a single value: another rule reads it
  const std::string where = config.fields().where(field);
  if (std::ssize(*list) < config.layers)
    throw_error("{}: expected a list with one entry for each of {} layers", where, config.layers);
  std::vector<uint32_t> counts;
  std::vector<bool> flags;
  std::vector<float> reals;
  for (int64_t il = 0; il < config.layers + config.drafts; ++il) {
    if (il >= std::ssize(*list)) { // a draft head
      if (!counts.empty()) counts.push_back(counts.back());
      flags.push_back(true);
      reals.push_back(0);
      continue;
    }
    const Json& entry = (*list)[il];
    if (equals < rule.fields.size()) {
      flags.push_back(count_equal(entry, rule.fields.substr(equals + 1)) != 0);
    } else if (rule.kind == Kind::counts && entry.is_number_unsigned() &&
               entry.get<uint64_t>() <= static_cast<uint64_t>(kMaxCount)) {
      counts.push_back(entry.get<uint32_t>());
    } else if (rule.kind == Kind::reals && (entry.is_null() || entry.is_number())) {
      reals.push_back(entry.is_null() ? 0 : entry.get<float>());
    } else {
      throw_error("{}: layer {}: expected {}", where, il,
                  rule.kind == Kind::reals ? "a number" : fmt::format("an integer of 0 to {}", kMaxCount));
    }
  }
  config.values.emplace(rule.key, 0);
  if (rule.kind == Kind::counts) metadata.set(key, counts);
  if (rule.kind == Kind::flags) metadata.set(key, flags);
  if (rule.kind == Kind::reals) metadata.set(key, reals);
}

void set_value(Config& config, gguf::Metadata& metadata, const std::string& prefix, const FieldRule& rule) {
  if (!config.applies(rule.only) || config.values.contains(rule.key)) return;
  if (rule.kind == Kind::counts || rule.kind == Kind::flags || rule.kind == Kind::reals)
    return set_each(config, metadata, prefix + std::string(rule.key), rule);
  const std::optional<double> found = config.evaluate(rule.fields);
  if (!found && !rule.absent) return;
  const double value = found.value_or(*rule.absent);
  const std::string key = (rule.key.starts_with("diffusion.") ? "" : prefix) + std::string(rule.key),
                    where = config.fields().where(rule.fields);
  config.values.emplace(rule.key, value);
  switch (rule.kind) {
  case Kind::count:
    if (!(value >= 0 && value <= kMaxCount && value == std::floor(value)))
      throw_error("{}: is {}, expected an integer of 0 to {}", where, value, kMaxCount);
    metadata.set(key, static_cast<uint32_t>(value));
    break;
  case Kind::real: metadata.set(key, static_cast<float>(value)); break;
  case Kind::flag: metadata.set(key, value != 0); break;
  default: break;
  }
  if (rule.key == "attention.layer_norm_rms_epsilon" && !(value >= 0 && value < 1))
    throw_error("{}: is {}, expected 0 to 1", where, value);
}

// Some dense models have a number of experts; the list of layer kinds decides.
bool lists_dense_blocks(const Json& document) {
  bool dense = false, experts = false;
  for (const char* key : {"layers_block_type", "hybrid_override_pattern"}) {
    const auto list = document.find(key);
    if (list == document.end()) continue;
    if (list->is_string()) {
      const auto& letters = list->get_ref<const std::string&>();
      dense |= letters.find('-') != std::string::npos;
      experts |= letters.find('E') != std::string::npos;
    }
    for (const Json& word : *list) {
      dense |= word == "mlp";
      experts |= word == "moe";
    }
  }
  return dense && !experts;
}

void read_experts(Config& config) {
  const Fields fields = config.fields();
  if (lists_dense_blocks(*config.document)) return;
  for (const char* key :
       {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "moe_num_primary_experts"})
    if (fields.find(key)) {
      config.experts = fields.get_int(key, 0, kMaxExperts);
      return;
    }
}

void read_adjusted_width(Config& config, gguf::Metadata& metadata, const std::string& prefix) {
  const Fields fields = config.fields();
  if (!fields.get_bool("block_auto_adjust_ff_dim", false)) return;
  const char* key = fields.find("block_ff_dim") ? "block_ff_dim" : "intermediate_size";
  int64_t width = 2 * fields.get_int(key, 1, 16 * kMaxWidth) / 3;
  const double factor = fields.get_number("block_ffn_dim_multiplier", 1);
  if (!(factor > 0 && factor <= 16))
    throw_error("{}: is {}, expected above 0 to 16", fields.where("block_ffn_dim_multiplier"), factor);
  width = static_cast<int64_t>(factor * static_cast<double>(width));
  const int64_t unit = fields.get_int("block_multiple_of", 1, kMaxWidth, 256);
  width = (width + unit - 1) / unit * unit;
  config.values["feed_forward_length"] = static_cast<double>(width);
  metadata.set(prefix + "feed_forward_length", static_cast<uint32_t>(width));
}

} // namespace

int64_t Config::count(std::string_view key) const {
  const auto found = values.find(key);
  return found == values.end() ? 0 : static_cast<int64_t>(found->second);
}

Config read_config(JsonFiles& files, gguf::Metadata& metadata, const gguf::Safetensors* tensors) {
  Config out;
  out.path = files.path("config.json");
  const Json& document = files.get("config.json");
  if (document.is_null()) throw_error("{}: is missing; expected the folder of a Hugging Face checkpoint", out.path);
  out.document = std::make_shared<const Json>(flattened(document));
  const Fields config = out.fields();
  read_experts(out);
  out.hf_class = class_of(document);
  out.architecture = &find_architecture(config, class_of(*out.document), out.experts);
  const std::string prefix = std::string(out.architecture->name) + ".";
  check_supported(out);

  const std::optional<double> layers =
      out.evaluate("num_hidden_layers | n_layer | n_layers | num_layers | layers_block_type | layer_types");
  if (!layers) throw_error("{}: is missing", config.where("num_hidden_layers"));
  if (!(*layers >= 1 && *layers <= kMaxLayers && *layers == std::floor(*layers)))
    throw_error("{}: is {}, expected 1 to {}", config.where("num_hidden_layers"), *layers, kMaxLayers);
  out.layers = static_cast<int64_t>(*layers);
  out.width = config.get_int(named(config, {"hidden_size", "n_embd", "d_model"}), 1, kMaxWidth);
  read_heads(out);
  out.vocab = config.get_int("vocab_size", 1, kMaxVocab);
  out.context = config.get_int(named(config, {"max_position_embeddings", "n_positions", "max_sequence_length",
                                              "model_max_length", "max_seq_len", "seq_length"}),
                               1, kMaxContext, out.heads > 0 ? 2048 : 1 << 20);
  out.tied = config.find_bool("tie_word_embeddings");
  if (const Json* quantization = config.find("quantization_config")) out.quantization = *quantization;

  if (tensors && !out.checkpoint().drafts.empty()) out.drafts = count_drafts(*tensors, out.layers);
  const auto set_int = [&](const char* key, int64_t value) {
    if (!out.values.emplace(key, value).second) return;
    metadata.set(prefix + key, static_cast<uint32_t>(value));
  };
  set_int("block_count", out.layers + out.drafts);
  if (out.drafts > 0) set_int("nextn_predict_layers", out.drafts);
  set_int("embedding_length", out.width);
  set_int("vocab_size", out.vocab);
  for (const models::Checkpoint* rules = &out.checkpoint(); rules; rules = rules->base)
    for (const FieldRule& rule : rules->fields) set_value(out, metadata, prefix, rule);
  read_adjusted_width(out, metadata, prefix);
  read_layer_kinds(out, metadata, prefix);
  if (!out.checkpoint().layers.windows && !out.checkpoint().layers.compress_ratios) limit_to_window(out);
  set_int("context_length", out.context);
  set_int("attention.head_count", out.heads);
  if (out.heads > 0) {
    set_int("attention.head_count_kv", out.kv_heads);
    set_int("attention.key_length", out.head_dim);
    set_int("attention.value_length", out.head_dim);
  }
  if (out.experts > 0) {
    set_int("expert_count", out.experts);
    constexpr std::string_view kUsed =
        "num_experts_per_tok | num_experts_per_token | moe_k | moe_topk.0 | moe_topk | top_k_experts | moe_top_k | "
        "moe_num_active_primary_experts";
    const double used = out.evaluate(kUsed).value_or(0);
    if (!(used >= 1 && used <= static_cast<double>(out.experts) && used == std::floor(used)))
      throw_error("{}: is {}, expected 1 to {}", config.where(kUsed), used, out.experts);
    set_int("expert_used_count", static_cast<int64_t>(used));
  }
  for (const FieldRule& rule : kShared) set_value(out, metadata, prefix, rule);
  if (!out.values.contains("feed_forward_length"))
    set_int("feed_forward_length", out.count("expert_feed_forward_length"));
  if (out.heads > 0) read_rope(out, metadata, prefix);
  read_pooling(files, out, metadata);
  read_token_types(out, metadata);
  return out;
}

} // namespace ridge::convert::import
