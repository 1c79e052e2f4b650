// From a GGUF file to a Program.
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"

#include <cstdint>
#include <string>

namespace ridge::models {

// What a Program ends with: logits, or the normed hidden state that an output matrix would make them of.
enum class Ending : uint8_t { logits, hidden };

// Builds the Program of the file's architecture. Throws Error for an unknown architecture, a tensor that is missing or
// has another shape, a hyperparameter out of range, and a model that asks for something that is not supported yet. The
// file must outlive the Program: weights point into its mapping. Models without an output matrix end with the hidden
// state, whatever `ending` says.
core::Program build_program(const gguf::File& file, Ending ending = Ending::logits);

int64_t parameter_count(const gguf::File& file); // weights in all tensors

// A short name for tables: "llama 8B Q4_K_M". The type is the name of general.file_type, or the type of most weights.
std::string model_label(const gguf::File& file);
std::string file_type_label(const gguf::File& file);

} // namespace ridge::models
