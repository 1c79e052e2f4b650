// Tensor names of checkpoints.
#pragma once

#include "gguf/safetensors.h"
#include "models/checkpoints/checkpoint.h"

#include <span>
#include <string>
#include <string_view>

namespace ridge::convert::import {

std::span<const models::TensorRule> model_rules(); // outside the layers
std::span<const models::TensorRule> layer_rules();

struct Names {
  std::string prefix;    // "model.", "model.language_model."
  std::string table;     // with prefix
  std::string layers;    // before a layer's number, with prefix
  std::string head;      // output matrix, even if absent
  bool midlayer = false; // the only layer has no number

  std::string layer(int64_t il) const { return midlayer ? layers : layers + std::to_string(il) + "."; }
};
// Throws Error without an embedding table, unless it is of a draft head.
Names find_names(const gguf::Safetensors& tensors);

inline constexpr std::string_view kDraftsAside = "mtp.";
bool has_module(const gguf::Safetensors& tensors, const std::string& module);
// Draft heads: layers behind `layers`, or one aside.
// The prefix of a draft head's tensors: of a layer behind the others or of one aside; empty: neither.
std::string draft_prefix(const gguf::Safetensors& tensors, const Names& names, int64_t layers, int64_t head);
int64_t count_drafts(const gguf::Safetensors& tensors, int64_t layers);

// A module's layer, -1: outside of layers. `below`: its name in rules; the embedding table has its rule's, the output
// matrix "lm_head".
struct ModulePlace {
  int64_t layer = -1;
  std::string below;
};
ModulePlace place_of(const std::string& module);

// Whether the language model does not use a tensor (image, audio, draft heads, constants, quantization of activations).
bool is_unused_tensor(std::string_view name);
bool is_draft(std::string_view name); // a draft head that is no layer

} // namespace ridge::convert::import
