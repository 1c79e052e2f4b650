// Encoders per instruction set, for quant/encode.cpp.
#pragma once

#include "quant/group.h"
#include "quant/registry.h"

namespace ridge::quant {

// Encodes `count` consecutive blocks. importance: one row of blocks_per_row blocks, or nullptr for ones; first_block,
// counted from the tensor's start, gives the place in the row.
using EncodeBlocks = void (*)(const float* weights, const float* importance, int64_t first_block,
                              int64_t blocks_per_row, int64_t count, std::byte* out);

// The same search with unpacked results, for error feedback. importance: one block, for all.
using SearchBlocks = void (*)(const float* weights, const float* importance, int64_t count, Parts* out);

// nullptr: no encoder for the type. Weights must be finite.
EncodeBlocks find_plain_encoder(Type type);
EncodeBlocks find_codebook_encoder(Type type);
EncodeBlocks find_level_encoder(Type type);
SearchBlocks find_codebook_search(Type type);

} // namespace ridge::quant
