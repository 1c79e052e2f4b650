// Rotary position embedding: the table of angular frequencies that a file's hyperparameters describe.
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"

#include <string>

namespace ridge::models {

// The table for `dims` rotated dimensions of each head, an even number. Reads "<arch>.rope.*" and the tensor
// rope_freqs.weight. Throws Error for scaling types other than none, linear and yarn, and for values out of range.
core::RopeTable make_rope_table(const gguf::File& file, const std::string& arch, int64_t dims, core::RopeStyle style);

} // namespace ridge::models
