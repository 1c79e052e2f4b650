// Rotary position embedding: the table of angular frequencies that a file's hyperparameters describe.
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"

#include <span>
#include <string>

namespace ridge::models {

// The table for `dims` rotated dimensions of each head, an even number. Reads "<arch>.rope.*" and the tensor
// rope_freqs.weight, unless `factors` is false. Throws Error for scaling types other than none, linear and yarn, and
// for values out of range.
core::RopeTable make_rope_table(const gguf::File& file, const std::string& arch, int64_t dims, core::RopeStyle style,
                                bool factors = true);

// For text, all axes of rope in interleaved sections have the token's position, but the fourth has 0. Pairs that belong
// to it (IMROPE: in turn one of each axis, as far as its section goes) stop turning. `sections`: pairs of each axis.
// Throws Error for sections that are negative or all 0.
void stop_unused_axes(core::RopeTable& table, std::span<const int64_t> sections);

} // namespace ridge::models
