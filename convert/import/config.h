// config.json of a Hugging Face checkpoint: what kind of model it is and its hyperparameters. What ridge cannot run, it
// refuses here, with the field's name, rather than write a file that says something else than the checkpoint.
#pragma once

#include "convert/import/json_file.h"
#include "gguf/metadata.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::convert::import {

// One row of the table of classes that can be converted (architectures.cpp).
struct Architecture {
  std::string_view hf_class;     // in "architectures" of config.json
  std::string_view gguf;         // general.architecture
  bool rotates_adjacent = false; // rope turns neighbours: q and k rows go from halves to pairs
  bool qk_norm = false;
  // Where layer {}'s expert {} is, and the names of its gate, up and down parts; empty: a dense model.
  std::string_view router = {}, expert_gate = {}, expert_up = {}, expert_down = {};
};
std::span<const Architecture> imported_architectures();

struct Config {
  const Architecture* architecture = nullptr;
  int64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0, context = 0;
  int64_t ffn_width = 0;                 // of a dense layer, or of an expert
  int64_t experts = 0, experts_used = 0; // 0: a dense model
  bool tied = false;                     // the output matrix is the embedding table
  std::vector<float> rope_factors;       // Llama 3: divisors per pair, the tensor rope_freqs.weight
  Json quantization;                     // quantization_config; null: none
  std::vector<std::string> notes;        // what the user should know
};

// Reads `folder`/config.json and appends the hyperparameters to `metadata`.
Config read_config(const std::string& folder, gguf::Metadata& metadata);

} // namespace ridge::convert::import
