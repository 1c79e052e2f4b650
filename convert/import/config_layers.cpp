// The kinds of a model's layers, which config.json spells in many ways.
#include "convert/import/config.h"
#include "core/error.h"
#include "core/strings/printable.h"
#include "models/hparams.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ridge::convert::import {
namespace {

constexpr auto kWords = std::to_array<std::pair<std::string_view, LayerKind>>({
    {"attention", LayerKind::attention},
    {"full_attention", LayerKind::attention},
    {"global_attention", LayerKind::attention},
    {"*", LayerKind::attention},
    {"sliding_attention", LayerKind::sliding},
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
    throw_error("{}: {}: models of this kind cannot be run yet", where, core::printable(std::string(word)));
  return found->second;
}

// A list of words, or a letter for each layer.
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
    kinds.resize(config.layers);
    return kinds;
  }
  return kinds;
}

// Layers of attention among recurrent ones, or of full attention among sliding ones, by number or by period.
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
        throw_error("{}: expected numbers of 0 to {}", fields.where(key), config.layers - 1);
      kinds[layer] = LayerKind::attention;
    }
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

} // namespace

void read_layer_kinds(Config& config, gguf::Metadata& metadata, const std::string& prefix) {
  const models::LayerKeys& keys = config.checkpoint().layers;
  config.kinds = read_list(config);
  if (config.kinds.empty()) config.kinds = read_numbers(config);
  const std::vector<LayerKind>& kinds = config.kinds;
  const auto some = [&](LayerKind kind) { return std::ranges::find(kinds, kind) != kinds.end(); };
  if (some(LayerKind::recurrent) && !keys.recurrent_layers && !keys.kv_heads)
    throw_error("{}: recurrent layers: models of this kind cannot be run yet", config.fields().where("layer_types"));

  const auto set = [&](const char* key, auto of_layer) {
    std::vector<decltype(of_layer(LayerKind::attention))> values;
    for (const LayerKind kind : kinds) values.push_back(of_layer(kind));
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
    const int64_t window = config.fields().get_int("sliding_window", 1, models::kMaxContext);
    metadata.set(prefix + "attention.sliding_window", static_cast<uint32_t>(window));
    set("attention.sliding_window_pattern", [](LayerKind kind) { return kind == LayerKind::sliding; });
  }
}

} // namespace ridge::convert::import
