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

// What stands before the names of the language model's tensors: "model.", "model.language_model.". Throws Error if no
// embedding table is there.
std::string find_prefix(const gguf::Safetensors& tensors);
// The name of the output matrix's module, whether it is there or not.
std::string find_head(const gguf::Safetensors& tensors, const std::string& prefix);

// Whether a tensor has no part in the language model: of images or sound, of draft heads, constants, or how activations
// were quantized.
bool is_beside(std::string_view name);
bool is_draft(std::string_view name); // of a draft head that is no layer

} // namespace ridge::convert::import
