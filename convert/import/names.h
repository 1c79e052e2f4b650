// The names of checkpoints' tensors.
#pragma once

#include "gguf/safetensors.h"
#include "models/checkpoint.h"

#include <span>
#include <string>
#include <string_view>

namespace ridge::convert::import {

std::span<const models::TensorRule> model_rules(); // that most architectures share: of tensors beside the layers
std::span<const models::TensorRule> layer_rules(); // of a layer

// How a checkpoint spells the parts of its language model.
struct Names {
  std::string prefix; // of all names: "model.", "model.language_model."
  std::string table;  // the embedding table's module, with the prefix
  std::string layers; // what stands before a layer's number, with the prefix
  std::string head;   // the output matrix's module, whether it is there or not
};
// Throws Error if no embedding table is there.
Names find_names(const gguf::Safetensors& tensors);

// Where a module of a checkpoint is: in a layer, or beside them (-1). `below` is what rules call it; the embedding
// table's is that of its own rule, the output matrix's "lm_head".
struct ModulePlace {
  int64_t layer = -1;
  std::string below;
};
ModulePlace place_of(const std::string& module);

// Whether a tensor has no part in the language model: of images or sound, of draft heads, constants, or how activations
// were quantized.
bool is_beside(std::string_view name);
bool is_draft(std::string_view name); // of a draft head that is no layer

} // namespace ridge::convert::import
