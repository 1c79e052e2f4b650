// What tells models apart: unfinished work and prompts that are kept in files are of one model.
#pragma once

#include "gguf/gguf.h"

#include <string>

namespace ridge::engine {

// The sizes of a file, a checksum of its metadata and of what its tensors are, and of samples of their weights: a few
// hundred pages are read.
std::string model_key(const gguf::File& file);

} // namespace ridge::engine
