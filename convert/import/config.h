// config.json of a Hugging Face checkpoint: its architecture and hyperparameters. A field that asks for something that
// ridge cannot run is an Error that names it, because the file that would be written would be another model.
#pragma once

#include "convert/import/json_file.h"
#include "gguf/metadata.h"
#include "models/architecture.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::convert::import {

struct Config {
  const models::Architecture* architecture = nullptr;
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0, context = 0;
  int64_t ffn_width = 0;                 // of a dense layer, or of an expert
  int64_t experts = 0, experts_used = 0; // 0: a dense model
  bool tied = false;                     // the output matrix is the embedding table
  std::vector<float> rope_factors;       // Llama 3: divisors per pair, the tensor rope_freqs.weight
  Json quantization;                     // quantization_config; null: none
  std::vector<std::string> notes;        // what the user should know

  const models::Checkpoint& checkpoint() const { return architecture->file.checkpoint; }
};

// Reads `folder`/config.json and appends the hyperparameters to `metadata`.
Config read_config(const std::string& folder, gguf::Metadata& metadata);

} // namespace ridge::convert::import
