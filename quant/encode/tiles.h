// How quant/encode.cpp reaches the encoders of an instruction set: one function per format, which takes a run of
// blocks.
#pragma once

#include "quant/group.h"
#include "quant/registry.h"

namespace ridge::quant {

// Encodes `count` blocks in a row. weights: their weights. importance: the factors of a whole row of blocks_per_row
// blocks, or nullptr for ones; the first block is the first_block-th of the tensor, which says where in the row it is.
using EncodeBlocks = void (*)(const float* weights, const float* importance, int64_t first_block,
                              int64_t blocks_per_row, int64_t count, std::byte* out);

// The same search, with its result in numbers: for error feedback, which keeps the scales and chooses the codes. All
// blocks have the importance of one block.
using SearchBlocks = void (*)(const float* weights, const float* importance, int64_t count, Parts* out);

// nullptr where the family has no encoder for the type. Weights must be finite.
EncodeBlocks find_plain_encoder(Type type);
EncodeBlocks find_codebook_encoder(Type type);
EncodeBlocks find_level_encoder(Type type);
SearchBlocks find_codebook_search(Type type);

} // namespace ridge::quant
