// Encoders of pictures, `mmproj` files: which of them are a model's, by where they lie and what they are called.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::hub {

// The model that the name of an encoder's file says it is for, in lower case: "qwen2.5-vl-7b" of
// "mmproj-Qwen2.5-VL-7B-F16.gguf". Empty: it says none, as in "mmproj-model-f16.gguf".
std::string projector_owner(std::string_view file_name);

// Those of `projectors` that may be the encoder of `model`, the best type first: F16, BF16, Q8_0, F32, others.
// Where names say whose they are, these alone; what is named like another one of `models` is that one's. All are names
// or paths of files.
std::vector<std::string> projectors_of(const std::string& model, std::vector<std::string> projectors,
                                       std::span<const std::string> models);

// The same of the files that lie beside a model: in its folder or, in Hugging Face's cache, at the top of its
// repository; of a model of Ollama's, those that its manifest names.
std::vector<std::string> projectors_beside(const std::string& model);

} // namespace ridge::hub
