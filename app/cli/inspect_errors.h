// What ridge inspect says about errors: of one file against another, and of a tensor in other types.
#pragma once

#include "gguf/gguf.h"

#include <string>

namespace ridge::app {

// Each tensor of `path` against the one of that name in `reference`.
void compare_files(const std::string& path, const std::string& reference, bool json);

// What `tensor` would lose in each of the types, "Q3_K,IQ4_XS"; imatrix: a file, or empty.
void show_tensor_as(const gguf::File& file, const std::string& tensor, const std::string& types,
                    const std::string& imatrix, bool json);

} // namespace ridge::app
