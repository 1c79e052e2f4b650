// Matches projectors (vision encoders) with models.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::hub {

// The model in a projector's name: "qwen2.5-vl-7b" of "mmproj-Qwen2.5-VL-7B-F16.gguf"; empty: none.
std::string projector_owner(std::string_view file_name);

// Returns those of `projectors` that may belong to `model`, best type first: F16, BF16, Q8_0, F32. Projectors named
// after the model exclude others; those named after another of `models` are dropped.
std::vector<std::string> projectors_of(const std::string& model, std::vector<std::string> projectors,
                                       std::span<const std::string> models);

// The same for projectors in the model's folder or snapshot root; for Ollama's blobs, in manifests.
std::vector<std::string> projectors_beside(const std::string& model);

} // namespace ridge::hub
