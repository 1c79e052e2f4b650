// config.json of a Hugging Face checkpoint: its architecture and hyperparameters. A field that asks for something that
// ridge cannot run is an Error that names it, because the file that would be written would be another model.
#pragma once

#include "convert/import/json_file.h"
#include "gguf/metadata.h"
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
  const models::Architecture* architecture = nullptr; // of the language model
  std::string hf_class;                               // that config.json names: of all that the checkpoint has
  // The fields of the language model: those of text_config, where there is one, before those around it.
  std::shared_ptr<const Json> document;
  std::string path;
  int64_t layers = 0, width = 0, vocab = 0, context = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;     // 0: no attention
  int64_t experts = 0;                               // 0: a dense model
  std::optional<bool> tied;                          // the output matrix is the embedding table; not set: not said
  std::vector<LayerKind> kinds;                      // of layers; empty: all are alike
  std::vector<float> rope_factors;                   // Llama 3: divisors per pair, the tensor rope_freqs.weight
  std::vector<float> long_factors, short_factors;    // of Phi 3: rope_factors_long.weight and rope_factors_short.weight
  Json quantization;                                 // quantization_config; null: none
  std::vector<std::string> notes;                    // what the user should know
  std::map<std::string, double, std::less<>> values; // hyperparameters that were written, by key

  const models::Checkpoint& checkpoint() const { return architecture->checkpoint(); }
  Fields fields() const { return {*document, path}; }
  bool applies(models::Only only) const {
    return only == models::Only::always || (only == models::Only::experts) == (experts > 0);
  }
  // The value of an expression of models::FieldRule; nothing where a field is missing. Throws Error where a field is no
  // number.
  std::optional<double> evaluate(std::string_view expression) const;
  int64_t count(std::string_view key) const; // of `values`; 0: not written
};

// Reads config.json and appends the hyperparameters to `metadata`.
Config read_config(JsonFiles& files, gguf::Metadata& metadata);

// Parts of read_config.
void add_defaults(Json& document); // of a language model's fields, where they are parts of another's and leave them out
void read_layer_kinds(Config& config, gguf::Metadata& metadata, const std::string& prefix);
void read_pooling(JsonFiles& files, const Config& config, gguf::Metadata& metadata);
void read_token_types(const Config& config, gguf::Metadata& metadata);
void read_rope(Config& config, gguf::Metadata& metadata, const std::string& prefix);

} // namespace ridge::convert::import
