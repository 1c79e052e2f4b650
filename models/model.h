// From a GGUF file to a Program.
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"

#include <string>
#include <string_view>
#include <vector>

namespace ridge::models {

// Builds the Program of the file's architecture. Throws Error for an unknown architecture (listing the known ones), a
// missing or misshapen tensor, or a hyperparameter out of range. The file must outlive the Program: weights point into
// its mapping.
core::Program build_program(const gguf::File& file);

std::vector<std::string_view> architectures(); // in arches.def order

int64_t parameter_count(const gguf::File& file); // weights in all tensors

// What people call the model: "llama 8B Q4_K_M". The type is general.file_type's name, or the type of most weights.
std::string model_label(const gguf::File& file);
std::string file_type_label(const gguf::File& file);

} // namespace ridge::models
