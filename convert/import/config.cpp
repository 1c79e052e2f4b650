#include "convert/import/config.h"

#include "core/error.h"
#include "core/strings/printable.h"
#include "models/hparams.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace ridge::convert::import {
namespace {

using models::Architecture, models::FieldRule, models::Kind, models::kMaxContext, models::kMaxExperts,
    models::kMaxHeadDim, models::kMaxHeads, models::kMaxLayers, models::kMaxWidth, models::Only;

constexpr int64_t kMaxVocab = 1 << 24;
constexpr double kMaxCount = 1e9;

// Hyperparameters that most architectures have, where config.json has them.
constexpr auto kShared = std::to_array<FieldRule>({
    {"feed_forward_length", Kind::count, "block_ff_dim | intermediate_size | n_inner | hidden_dim"},
    {"expert_feed_forward_length", Kind::count, "moe_intermediate_size", {}, Only::experts},
    {"expert_shared_feed_forward_length",
     Kind::count,
     "shared_expert_intermediate_size | moe_shared_expert_intermediate_size | shared_intermediate_size",
     {},
     Only::experts},
    {"attention.layer_norm_rms_epsilon", Kind::real, "rms_norm_eps | norm_eps | layer_norm_epsilon", 1e-6},
});

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// Calls `use` with each part of the text.
template <typename Use>
void for_parts(std::string_view text, char separator, Use&& use) {
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    use(trimmed(text.substr(at, end - at)));
    at = end + 1;
  }
}

// "a.b" or "a.1"; nullptr: absent, null, a word ("auto"), or {"__float__": "Infinity"}, as newer writers spell it.
const Json* find_path(const Json& document, std::string_view path) {
  const Json* at = &document;
  for_parts(path, '.', [&](std::string_view part) {
    size_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    if (!at) return;
    if (at->is_array() && error == std::errc() && end == part.data() + part.size()) {
      at = index < at->size() ? &(*at)[index] : nullptr;
    } else {
      const auto found = at->is_object() ? at->find(part) : at->end();
      at = at->is_object() && found != at->end() ? &*found : nullptr;
    }
  });
  return at && !at->is_null() && !at->is_string() && !(at->is_object() && at->contains("__float__")) ? at : nullptr;
}

// The first of "architectures"; empty: none is named.
std::string class_of(const Json& document) {
  const auto classes = document.find("architectures");
  const bool named = classes != document.end() && classes->is_array() && !classes->empty() && (*classes)[0].is_string();
  return named ? (*classes)[0].get<std::string>() : "";
}

// The architecture whose row of models/arches.def lists the class.
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
  throw_error("{}: {} is not known; known are {}", fields.where("architectures"), core::printable(name),
              fmt::join(known, ", "));
}

bool is_known(std::string_view hf_class) {
  return std::ranges::any_of(models::architecture_table(), [&](const Architecture& architecture) {
    return std::ranges::any_of(architecture.hf_classes,
                               [&](std::string_view known) { return known.substr(0, known.find(' ')) == hf_class; });
  });
}

// The class of language models that model_type names: "qwen3_moe" is Qwen3MoeForCausalLM. Empty: none that is known.
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

// The language model's fields at one level.
Json flattened(const Json& document) {
  for (const char* key : {"text_config", "llm_config"}) {
    const auto inner = document.find(key);
    if (inner == document.end() || !inner->is_object()) continue;
    Json outer = document;
    outer.erase(key);
    // What the model around says of itself counts.
    const Json around = outer;
    outer.update(*inner);
    for (const char* own : {"architectures", "tie_word_embeddings"})
      if (around.contains(own)) outer[own] = around[own];
    // A class that joins any language model with an encoder does not say which one.
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

// Throws Error for each field that changes the computation in a way that the architecture's Program does not have.
void refuse_what_cannot_run(const Config& config) {
  const Fields fields = config.fields();
  const auto refuse = [&](std::string_view key, std::string_view found) {
    throw_error("{}: {}: models of this kind cannot be run yet", fields.where(key), found);
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
  for (const models::FixedField& fixed : config.checkpoint().fixed) {
    if (!config.applies(fixed.only)) continue;
    const double found = config.evaluate(fixed.field).value_or(fixed.absent);
    if (found != fixed.value) refuse(fixed.field, fmt::format("is {}, not {}", found, fixed.value));
  }
  if (const Json* dense = fields.find("mlp_only_layers"); config.experts > 0 && dense && !dense->empty())
    refuse("mlp_only_layers", "some layers have no experts");
}

// A sliding window makes no difference to a text that fits into it, so the file's context ends there.
void limit_to_window(Config& config) {
  const Fields fields = config.fields();
  const int64_t window = fields.get_int("sliding_window", 0, kMaxContext, 0);
  const bool sliding = config.kinds.empty()
                           ? fields.get_bool("use_sliding_window", config.checkpoint().slides_by_default)
                           : std::ranges::find(config.kinds, LayerKind::sliding) != config.kinds.end();
  if (!sliding || window == 0 || window >= config.context) return;
  config.notes.push_back(fmt::format(
      "attention of this model slides over {} tokens; ridge attends to all, so the context ends there (trained: {})",
      window, config.context));
  config.context = window;
}

void read_heads(Config& config) {
  const Fields fields = config.fields();
  if (!config.checkpoint().attention) return;
  config.heads = fields.get_int("num_attention_heads", 1, kMaxHeads);
  config.kv_heads = fields.get_int("num_key_value_heads", 1, config.heads, config.heads);
  if (config.heads % config.kv_heads != 0)
    throw_error("{}: {} heads cannot share {} evenly", fields.where("num_key_value_heads"), config.heads,
                config.kv_heads);
  const char* key = fields.find("head_dim") || !fields.find("attention_head_dim") ? "head_dim" : "attention_head_dim";
  config.head_dim = fields.get_int(key, 2, kMaxHeadDim, config.width / config.heads);
  if (config.head_dim % 2 != 0) throw_error("{}: is odd ({})", fields.where(key), config.head_dim);
}

void set_value(Config& config, gguf::Metadata& metadata, const std::string& prefix, const FieldRule& rule) {
  if (!config.applies(rule.only) || config.values.contains(rule.key)) return;
  const std::optional<double> found = config.evaluate(rule.fields);
  if (!found && !rule.absent) return;
  const double value = found.value_or(*rule.absent);
  const std::string key = prefix + std::string(rule.key), where = config.fields().where(rule.fields);
  config.values.emplace(rule.key, value);
  switch (rule.kind) {
  case Kind::count:
    if (!(value >= 0 && value <= kMaxCount && value == std::floor(value)))
      throw_error("{}: is {}, expected an integer of 0 to {}", where, value, kMaxCount);
    metadata.set(key, static_cast<uint32_t>(value));
    break;
  case Kind::real: metadata.set(key, static_cast<float>(value)); break;
  case Kind::flag: metadata.set(key, value != 0); break;
  }
  if (rule.key == "attention.layer_norm_rms_epsilon" && !(value >= 0 && value < 1))
    throw_error("{}: is {}, expected 0 to 1", where, value);
}

// Some writers name a number of experts for models without any. Where layers are blocks of one kind, their list tells.
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
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"})
    if (fields.find(key)) {
      config.experts = fields.get_int(key, 0, kMaxExperts);
      return;
    }
}

// LFM 2 gives a width from which another one follows.
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

std::optional<double> Config::evaluate(std::string_view expression) const {
  if (expression.find('+') != std::string_view::npos) {
    std::optional<double> sum = 0;
    for_parts(expression, '+', [&](std::string_view term) {
      const std::optional<double> value = sum ? evaluate(term) : std::nullopt;
      sum = value ? std::optional(*sum + *value) : std::nullopt;
    });
    return sum;
  }
  std::optional<double> product = 1;
  for_parts(expression, '*', [&](std::string_view factor) {
    std::optional<double> value;
    for_parts(factor, '|', [&](std::string_view name) {
      if (value) return;
      if (const size_t equals = name.find('='); equals != std::string_view::npos) {
        const auto word = document->find(trimmed(name.substr(0, equals))); // null is no word, but it is there
        if (word != document->end()) value = *word == trimmed(name.substr(equals + 1)) ? 1 : 0;
      } else if (double number; std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc()) {
        value = number;
      } else if (const Json* found = find_path(*document, name)) {
        if (found->is_array()) value = static_cast<double>(found->size());
        if (found->is_boolean()) value = found->get<bool>() ? 1 : 0;
        if (found->is_number()) value = found->get<double>();
        if (!value || !std::isfinite(*value)) throw_error("{}: {}: expected a number", path, name);
      }
    });
    product = product && value ? std::optional(*product * *value) : std::nullopt;
  });
  return product;
}

int64_t Config::count(std::string_view key) const {
  const auto found = values.find(key);
  return found == values.end() ? 0 : static_cast<int64_t>(found->second);
}

Config read_config(JsonFiles& files, gguf::Metadata& metadata) {
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
  refuse_what_cannot_run(out);

  const std::optional<double> layers = out.evaluate("num_hidden_layers | n_layer | layers_block_type | layer_types");
  if (!layers) throw_error("{}: is missing", config.where("num_hidden_layers"));
  if (!(*layers >= 1 && *layers <= kMaxLayers && *layers == std::floor(*layers)))
    throw_error("{}: is {}, expected 1 to {}", config.where("num_hidden_layers"), *layers, kMaxLayers);
  out.layers = static_cast<int64_t>(*layers);
  out.width = config.get_int("hidden_size", 1, kMaxWidth);
  read_heads(out);
  out.vocab = config.get_int("vocab_size", 1, kMaxVocab);
  out.context = config.get_int("max_position_embeddings", 1, kMaxContext, out.heads > 0 ? 2048 : 1 << 20);
  out.tied = config.find_bool("tie_word_embeddings");
  if (const Json* quantization = config.find("quantization_config")) out.quantization = *quantization;

  const auto set_int = [&](const char* key, int64_t value) {
    if (!out.values.emplace(key, value).second) return;
    metadata.set(prefix + key, static_cast<uint32_t>(value));
  };
  set_int("block_count", out.layers);
  set_int("embedding_length", out.width);
  set_int("vocab_size", out.vocab);
  for (const FieldRule& rule : out.checkpoint().fields) set_value(out, metadata, prefix, rule);
  read_adjusted_width(out, metadata, prefix);
  read_layer_kinds(out, metadata, prefix);
  if (!out.checkpoint().layers.windows) limit_to_window(out);
  set_int("context_length", out.context);
  set_int("attention.head_count", out.heads);
  if (out.heads > 0) {
    set_int("attention.head_count_kv", out.kv_heads);
    set_int("attention.key_length", out.head_dim);
    set_int("attention.value_length", out.head_dim);
  }
  if (out.experts > 0) {
    set_int("expert_count", out.experts);
    constexpr std::string_view kUsed = "num_experts_per_tok | moe_k | moe_topk.0 | moe_topk | top_k_experts";
    const double used = out.evaluate(kUsed).value_or(0);
    if (!(used >= 1 && used <= static_cast<double>(out.experts) && used == std::floor(used)))
      throw_error("{}: is {}, expected 1 to {}", config.where(kUsed), used, out.experts);
    set_int("expert_used_count", static_cast<int64_t>(used));
  }
  for (const FieldRule& rule : kShared) set_value(out, metadata, prefix, rule);
  if (!out.values.contains("feed_forward_length"))
    set_int("feed_forward_length", out.count("expert_feed_forward_length"));
  if (out.heads > 0) read_rope(out, metadata, prefix);
  return out;
}

} // namespace ridge::convert::import
