// Reads config.json. Throws Error for unsupported fields: ignoring one would write another model.
#pragma once

#include "convert/import/config/json_file.h"
#include "gguf/metadata.h"
#include "gguf/safetensors.h"
#include "models/architecture.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::convert::import {

enum class LayerKind : uint8_t { attention, sliding, recurrent, ffn };

struct Config {
  const models::Architecture* architecture = nullptr;
  std::string hf_class;
  // text_config, if present, over outer fields.
  std::shared_ptr<const Json> document;
  std::string path;
  int64_t layers = 0, width = 0, vocab = 0, context = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t experts = 0;
  int64_t drafts = 0;                             // draft heads, numbered behind the layers
  std::optional<bool> tied;                       // nullopt: not stated
  std::vector<LayerKind> kinds;                   // empty: all layers are equal
  std::vector<LayerKind> draft_kinds;             // of draft heads
  std::vector<float> rope_factors;                // Llama 3: divisors per pair (rope_freqs.weight)
  std::vector<float> long_factors, short_factors; // Phi 3: rope_factors_long.weight, rope_factors_short.weight
  Json quantization;
  std::vector<std::string> notes;
  std::map<std::string, double, std::less<>> values;

  const models::Checkpoint& checkpoint() const { return architecture->checkpoint(); }
  bool is_eagle() const { return architecture->name == "eagle3"; }
  bool is_dflash() const { return architecture->name == "dflash"; }
  bool is_draft_head() const { return is_eagle() || is_dflash(); }
  // BitNet's first checkpoints, and later ones in training form, have weights that are made ternary on use.
  bool is_ternary() const {
    return architecture->name == "bitnet" ||
           (quantization.is_object() && quantization.value("quantization_mode", Json()) == "online");
  }
  Fields fields() const { return {*document, path}; }
  bool applies(models::Only only) const {
    return only == models::Only::always || (only == models::Only::experts) == (experts > 0);
  }
  // A models::FieldRule expression; nullopt: missing field. Throws Error if a field is no number.
  std::optional<double> evaluate(std::string_view expression) const;
  int64_t count(std::string_view key) const;
};

// `tensors`: the checkpoint's, to count draft heads; nullptr: none.
Config read_config(JsonFiles& files, gguf::Metadata& metadata, const gguf::Safetensors* tensors = nullptr);

void add_defaults(Json& document); // defaults of nested language models
void read_layer_kinds(Config& config, gguf::Metadata& metadata, const std::string& prefix);
void read_pooling(JsonFiles& files, const Config& config, gguf::Metadata& metadata);
void read_token_types(const Config& config, gguf::Metadata& metadata);
void read_rope(Config& config, gguf::Metadata& metadata, const std::string& prefix);

} // namespace ridge::convert::import
