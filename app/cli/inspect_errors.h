// Quantization errors shown by ridge inspect.
#pragma once

#include "gguf/gguf.h"

#include <string>

namespace ridge::app {

// Compares the tensors of equal names.
void compare_files(const std::string& path, const std::string& reference, bool json);

// types: "Q3_K,IQ4_XS". imatrix: a file or empty.
void show_tensor_as(const gguf::File& file, const std::string& tensor, const std::string& types,
                    const std::string& imatrix, bool json);

} // namespace ridge::app
