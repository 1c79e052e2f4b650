// Identifies a file's model by checksums.
#pragma once

#include "gguf/gguf.h"

#include <string>

namespace ridge::engine {

// Covers metadata, tensor descriptions and samples of the weights; reads a few hundred pages.
std::string model_key(const gguf::File& file);

} // namespace ridge::engine
