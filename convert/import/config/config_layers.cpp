// Layer kinds in config.json.
#include "convert/import/config/config.h"
#include "core/error.h"
#include "core/strings/printable.h"
#include "models/file/hparams.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

namespace ridge::convert::import {
namespace {

constexpr auto kWords = std::to_array<std::pair<std::string_view, LayerKind>>({
    {"attention", LayerKind::attention},
    {"full_attention", LayerKind::attention},
    {"global_attention", LayerKind::attention},
    {"*", LayerKind::attention},
    {"indexed_attention", LayerKind::attention},
    {"minimax_m3_sparse", LayerKind::attention},
    {"compressed_sparse_attention", LayerKind::attention},
    {"heavily_compressed_attention", LayerKind::attention},
    {"sliding_attention", LayerKind::sliding},
    {"chunked_attention", LayerKind::sliding},
    {"linear_attention", LayerKind::recurrent},
    {"mamba", LayerKind::recurrent},
    {"mamba2", LayerKind::recurrent},
    {"conv", LayerKind::recurrent},
    {"M", LayerKind::recurrent},
    {"mlp", LayerKind::ffn},
    {"moe", LayerKind::ffn},
    {"-", LayerKind::ffn},
    {"E", LayerKind::ffn},
});

LayerKind kind_of(std::string_view word, const std::string& where) {
  const auto found = std::ranges::find(kWords, word, &std::pair<std::string_view, LayerKind>::first);
  if (found == kWords.end())
    throw_error("{}: {}: this variant is not supported yet", where, core::printable(std::string(word)));
  return found->second;
}

std::vector<LayerKind> read_list(const Config& config) {
  const Fields fields = config.fields();
  std::vector<LayerKind> kinds;
  for (const char* key : {"layer_types", "layers_block_type", "hybrid_override_pattern"}) {
    const Json* list = fields.find(key);
    if (!list) continue;
    if (list->is_string()) {
      for (const char letter : list->get<std::string>()) kinds.push_back(kind_of({&letter, 1}, fields.where(key)));
    } else {
      if (!list->is_array()) throw_error("{}: expected a list", fields.where(key));
      for (const Json& word : *list) {
        if (!word.is_string()) throw_error("{}: expected strings", fields.where(key));
        kinds.push_back(kind_of(word.get<std::string>(), fields.where(key)));
      }
    }
    if (std::ssize(kinds) < config.layers)
      throw_error("{}: has {} entries, expected one for each of {} layers", fields.where(key), kinds.size(),
                  config.layers);
    return kinds;
  }
  return kinds;
}

// By numbers or period: attention among recurrent layers, full among sliding ones.
std::vector<LayerKind> read_numbers(const Config& config) {
  const Fields fields = config.fields();
  for (const char* key : {"full_attn_idxs", "attn_layer_indices"}) {
    const Json* list = fields.find(key);
    if (!list) continue;
    std::vector<LayerKind> kinds(config.layers, LayerKind::recurrent);
    if (!list->is_array()) throw_error("{}: expected a list", fields.where(key));
    for (const Json& number : *list) {
      const int64_t layer = number.is_number_integer() ? number.get<int64_t>() : -1;
      if (layer < 0 || layer >= config.layers)
        throw_error("{}: expected numbers from 0 to {}", fields.where(key), config.layers - 1);
      kinds[layer] = LayerKind::attention;
    }
    return kinds;
  }
  for (const char* key : {"hybrid_layer_pattern", "sliding_window_layout"}) {
    const Json* list = fields.find(key);
    if (!list) continue;
    if (!list->is_array() || std::ssize(*list) < config.layers)
      throw_error("{}: expected a list with an entry for each of {} layers", fields.where(key), config.layers);
    std::vector<LayerKind> kinds;
    for (int64_t il = 0; il < config.layers; ++il)
      kinds.push_back((*list)[il] == 1 ? LayerKind::sliding : LayerKind::attention);
    return kinds;
  }
  if (const Json* linear = fields.find("linear_attn_config"); linear && linear->is_object()) // numbered from 1
    if (const auto list = linear->find("full_attn_layers"); list != linear->end() && list->is_array()) {
      std::vector<LayerKind> kinds(config.layers, LayerKind::recurrent);
      for (const Json& number : *list)
        if (number.is_number_unsigned() && number >= 1 && number <= config.layers)
          kinds[number.get<int64_t>() - 1] = LayerKind::attention;
      return kinds;
    }
  const auto every = [&](const char* key, LayerKind others, int64_t offset) {
    const int64_t period = fields.get_int(key, 1, models::kMaxLayers);
    std::vector<LayerKind> kinds(config.layers, others);
    for (int64_t il = 0; il < config.layers; ++il)
      if (il % period == (offset < 0 ? period - 1 : offset)) kinds[il] = LayerKind::attention;
    return kinds;
  };
  if (fields.find("attn_layer_period"))
    return every("attn_layer_period", LayerKind::recurrent,
                 fields.get_int("attn_layer_offset", 0, models::kMaxLayers, 0));
  const Json* period = fields.find("sliding_window_pattern");
  if (config.checkpoint().layers.windows && period && period->is_number())
    return every("sliding_window_pattern", LayerKind::sliding, -1);
  return {};
}

// Settings of full-attention layers: at the top level or, in newer files, per layer.
std::optional<int64_t> of_full_layers(const Config& config, std::string_view top, std::string_view of_layer,
                                      int64_t limit) {
  const Fields fields = config.fields();
  if (const Json* by_layer = fields.find("per_layer_config"); by_layer && by_layer->is_object())
    for (int64_t il = 0; il < config.layers; ++il)
      if (const auto own = by_layer->find(std::to_string(il));
          own != by_layer->end() && config.kinds[il] == LayerKind::attention)
        if (const Fields layer(*own, fields.where("per_layer_config")); layer.find(of_layer))
          return layer.get_int(of_layer, 1, limit);
  return fields.find(top) ? std::optional(fields.get_int(top, 1, limit)) : std::nullopt;
}

void read_two_heads(Config& config, gguf::Metadata& metadata, const std::string& prefix) {
  const Fields fields = config.fields();
  const auto set = [&](const char* key, int64_t value) {
    metadata.set(prefix + key, static_cast<uint32_t>(value));
    config.values[key] = static_cast<double>(value);
  };
  const int64_t full = of_full_layers(config, "global_head_dim", "head_dim", models::kMaxHeadDim).value_or(512);
  for (const char* what : {"attention.key_length", "attention.value_length"}) {
    set(what, full);
    set((std::string(what) + "_swa").c_str(), config.head_dim);
  }
  const auto set_each = [&](const char* key, auto of_layer) {
    std::vector<uint32_t> values(config.layers);
    for (int64_t il = 0; il < config.layers; ++il) values[il] = static_cast<uint32_t>(of_layer(il));
    metadata.set(prefix + key, values);
    config.values[key] = 0;
  };
  if (fields.get_bool("attention_k_eq_v", true) || fields.find("per_layer_config")) {
    const int64_t heads = of_full_layers(config, "num_global_key_value_heads", "num_key_value_heads", models::kMaxHeads)
                              .value_or(config.kv_heads);
    set_each("attention.head_count_kv",
             [&](int64_t il) { return config.kinds[il] == LayerKind::attention ? heads : config.kv_heads; });
  }
  const int64_t shared = fields.get_int("num_kv_shared_layers", 0, config.layers, 0), own = config.layers - shared;
  if (shared > 0 &&
      (own < 2 || config.kinds[own - 1] != LayerKind::attention || config.kinds[own - 2] != LayerKind::sliding))
    throw_error("{}: is {}: expected a layer with a window and one without directly before the last {}",
                fields.where("num_kv_shared_layers"), shared, shared);
  if (fields.get_bool("use_double_wide_mlp", false)) {
    const int64_t width = fields.get_int("intermediate_size", 1, models::kMaxWidth);
    set_each("feed_forward_length", [&](int64_t il) { return il < own ? width : 2 * width; });
  }
}

// Per-layer bases (0: none) must match the kinds, or define which layers rotate.
void read_rope_bases(const Config& config, gguf::Metadata& metadata, const std::string& prefix) {
  const Json* bases = config.fields().find("layer_rope_theta");
  if (!bases || !bases->is_array() || bases->size() != config.kinds.size()) return;
  if (config.checkpoint().layers.rope_pattern) {
    const double base = config.evaluate("rope_parameters.rope_theta | rope_theta").value_or(10000);
    std::vector<bool> turn;
    for (const Json& own : *bases) {
      if (!own.is_number() || (own != 0 && own != base))
        throw_error("{}: expected {} or 0 for each layer", config.fields().where("layer_rope_theta"), base);
      turn.push_back(own != 0);
    }
    return metadata.set(prefix + "attention.rope_pattern", turn);
  }
  for (size_t il = 0; il < bases->size(); ++il)
    if (((*bases)[il] == 0) != (config.kinds[il] == LayerKind::attention))
      throw_error("{}: layer {}: expected rope exactly in the layers with a window",
                  config.fields().where("layer_rope_theta"), il);
}

// DeepSeek V4: positions of an entry, 0 for layers that see a window only.
void read_ratios(const Config& config, gguf::Metadata& metadata, const std::string& prefix) {
  const Fields fields = config.fields();
  const Json* kinds = fields.find("layer_types");
  if (!kinds || !kinds->is_array() || fields.find("compress_ratios")) return;
  std::vector<uint32_t> ratios;
  for (int64_t il = 0; il < config.layers; ++il) {
    const Json& kind = (*kinds)[il];
    const auto rate = [&](const char* field, double absent) {
      return static_cast<uint32_t>(config.evaluate(field).value_or(absent));
    };
    ratios.push_back(kind == "compressed_sparse_attention"    ? rate("compress_rates.compressed_sparse_attention", 4)
                     : kind == "heavily_compressed_attention" ? rate("compress_rates.heavily_compressed_attention", 128)
                                                              : 0);
  }
  metadata.set(prefix + "attention.compress_ratios", ratios);
}

// Qwen 3.8: attention layers see whole blocks of positions.
void read_block_sizes(const Config& config, gguf::Metadata& metadata, const std::string& prefix) {
  const Fields fields = config.fields();
  const auto size = static_cast<uint32_t>(fields.get_int("indexer_compress_ratio", 1, models::kMaxContext));
  std::vector<uint32_t> sizes;
  for (int64_t il = 0; il < config.layers; ++il)
    sizes.push_back(config.kinds.empty() || config.kinds[il] == LayerKind::attention ? size : 0);
  metadata.set(prefix + "attention.compress_ratios", sizes);
}

// Qwen 3.8: n-grams, in the one layer that ple_layer_ids lists, counted from 1.
void read_ngrams(const Config& config, gguf::Metadata& metadata, const std::string& prefix) {
  const Fields fields = config.fields();
  const Json* layers = fields.find("ple_layer_ids");
  if (!layers || layers->empty()) return;
  const std::string where = fields.where("ple_layer_ids");
  const Json& first = layers->is_array() ? layers->front() : *layers;
  if (!layers->is_array() || layers->size() != 1)
    throw_error("{}: n-grams in more than one layer are not supported yet", where);
  if (!first.is_number_unsigned() || first < 1 || first > config.layers)
    throw_error("{}: expected a number from 1 to {}", where, config.layers);
  const auto set = [&](const char* key, int64_t value) { metadata.set(prefix + key, static_cast<uint32_t>(value)); };
  constexpr int64_t kMost = 1024;
  const int64_t length = fields.get_int("ngram_size", 2, kMost, 3),
                each = fields.get_int("heads_per_ngram", 1, kMost, 8), heads = (length - 1) * each,
                width = fields.get_int("ple_embed_dim", 1, models::kMaxWidth, config.width);
  if (width % heads != 0)
    throw_error("{}: is {}, which does not divide into {} n-gram heads", fields.where("ple_embed_dim"), width, heads);
  metadata.set(prefix + "ple.layers", std::vector<uint32_t>{first.get<uint32_t>() - 1});
  set("ple.ngram_size", length);
  set("ple.heads_per_ngram", each);
  set("ple.conv_kernel", fields.get_int("ple_conv_kernel_size", 1, kMost, 4));
  set("embedding_length_per_layer_input", width / heads);
  const std::optional<double> end = config.evaluate("eos_token_id.0 | eos_token_id");
  if (!end || *end < 0 || *end >= static_cast<double>(config.vocab))
    throw_error("{}: expected a token, with which n-grams end", fields.where("eos_token_id"));
  set("ple.eos_token_id", static_cast<int64_t>(*end));
}

// SmallThinker: every fourth layer from the first has neither a window nor rope, or none has a window.
void check_rope_layout(const Config& config) {
  constexpr int64_t kStep = 4;
  const Json* layout = config.fields().find("rope_layout");
  if (!layout) return;
  const bool windows = std::ranges::find(config.kinds, LayerKind::sliding) != config.kinds.end();
  for (int64_t il = 0; il < config.layers; ++il) {
    const bool whole = windows && il % kStep == 0;
    if (!layout->is_array() || il >= std::ssize(*layout) || (*layout)[il] != (whole ? 0 : 1))
      throw_error("{}: layer {}: expected {} here", config.fields().where("rope_layout"), il, whole ? 0 : 1);
    if (windows && (config.kinds[il] == LayerKind::attention) != whole)
      throw_error("{}: layer {}: expected {} here", config.fields().where("sliding_window_layout"), il, whole ? 0 : 1);
  }
}

} // namespace

void read_layer_kinds(Config& config, gguf::Metadata& metadata, const std::string& prefix) {
  const models::LayerKeys& keys = config.checkpoint().layers;
  config.kinds = read_list(config);
  if (config.kinds.empty()) config.kinds = read_numbers(config);
  if (config.kinds.empty() && keys.two_heads) { // as in Gemma 4
    constexpr int64_t kPeriod = 6;
    for (int64_t il = 1; il <= config.layers; ++il)
      config.kinds.push_back(il % kPeriod == 0 || il == config.layers ? LayerKind::attention : LayerKind::sliding);
  }
  // Kinds of draft heads follow in the list, or have their own, or all are attention.
  const Json* own = config.fields().find("mtp_layer_types");
  for (int64_t il = config.layers; il < config.layers + config.drafts && !config.kinds.empty(); ++il) {
    const int64_t head = il - config.layers;
    const bool listed = own && own->is_array() && head < std::ssize(*own) && (*own)[head].is_string();
    config.draft_kinds.push_back(
        il < std::ssize(config.kinds) ? config.kinds[il]
        : listed            ? kind_of((*own)[head].get<std::string>(), config.fields().where("mtp_layer_types"))
        : keys.drafts_slide ? LayerKind::sliding
                            : LayerKind::attention);
  }
  if (!config.kinds.empty()) config.kinds.resize(config.layers);
  const std::vector<LayerKind>& kinds = config.kinds;
  const auto some = [&](LayerKind kind) { return std::ranges::find(kinds, kind) != kinds.end(); };
  if (some(LayerKind::recurrent) && !keys.recurrent_layers && !keys.kv_heads)
    throw_error("{}: recurrent layers are not supported yet", config.fields().where("layer_types"));

  const auto set = [&](const char* key, auto of_layer) {
    std::vector<decltype(of_layer(LayerKind::attention))> values;
    for (const std::vector<LayerKind>& some_kinds : {kinds, config.draft_kinds})
      for (const LayerKind kind : some_kinds) values.push_back(of_layer(kind));
    metadata.set(prefix + key, values);
    config.values.emplace(key, 0);
  };
  if (keys.recurrent_layers && !kinds.empty())
    set("attention.recurrent_layers", [](LayerKind kind) { return kind == LayerKind::recurrent; });
  if (keys.kv_heads && !kinds.empty())
    set("attention.head_count_kv", [&](LayerKind kind) {
      return static_cast<uint32_t>(kind == LayerKind::attention || kind == LayerKind::sliding ? config.kv_heads : 0);
    });
  if (keys.ffn_widths && !kinds.empty()) {
    const Fields fields = config.fields();
    const char* width =
        config.experts > 0 && fields.find("moe_intermediate_size") ? "moe_intermediate_size" : "intermediate_size";
    const int64_t count = some(LayerKind::ffn) ? fields.get_int(width, 1, 16 * models::kMaxWidth) : 0;
    set("feed_forward_length",
        [&](LayerKind kind) { return static_cast<uint32_t>(kind == LayerKind::ffn ? count : 0); });
  }
  if (keys.windows && some(LayerKind::sliding)) {
    const char* key = config.fields().find("sliding_window") ? "sliding_window" : "sliding_window_size";
    if (!config.values.contains("attention.sliding_window"))
      metadata.set(prefix + "attention.sliding_window",
                   static_cast<uint32_t>(config.fields().get_int(key, 1, models::kMaxContext)));
    set("attention.sliding_window_pattern", [](LayerKind kind) { return kind == LayerKind::sliding; });
  }
  for (const auto& [key, expressions, usual] :
       {std::tuple("attention.head_count", keys.sliding_heads, config.heads),
        std::tuple("attention.head_count_kv", keys.sliding_kv_heads, config.kv_heads)}) {
    std::optional<double> own;
    for (const std::string_view expression : expressions)
      if (!own && !expression.empty()) own = config.evaluate(expression);
    if (!own || !some(LayerKind::sliding)) continue;
    if (!(*own >= 1 && *own <= models::kMaxHeads && *own == std::floor(*own)))
      throw_error("{}: is {}, expected 1 to {}", config.fields().where(expressions[0]), *own, models::kMaxHeads);
    set(key, [&](LayerKind kind) { return static_cast<uint32_t>(kind == LayerKind::sliding ? *own : usual); });
  }
  if (keys.two_heads) read_two_heads(config, metadata, prefix);
  read_rope_bases(config, metadata, prefix);
  check_rope_layout(config);
  if (keys.compress_ratios) read_ratios(config, metadata, prefix);
  if (keys.block_sizes) read_block_sizes(config, metadata, prefix);
  if (keys.ngrams) read_ngrams(config, metadata, prefix);
}

} // namespace ridge::convert::import
