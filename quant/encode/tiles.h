// Encoders per instruction set, for quant/encode/encode.cpp.
#pragma once

#include "quant/formats/group.h"
#include "quant/registry.h"

namespace ridge::quant {

// `count` consecutive blocks; first_block counts from the tensor's start. importance: a row of blocks_per_row blocks,
// or nullptr.
using EncodeBlocks = void (*)(const float* weights, const float* importance, int64_t first_block,
                              int64_t blocks_per_row, int64_t count, std::byte* out);

// Unpacked results, for error feedback and rounding. importance: one block.
using SearchBlocks = void (*)(const float* weights, const float* importance, int64_t count, Parts* out);

// nullptr: no encoder. Weights must be finite.
EncodeBlocks find_plain_encoder(Type type);
EncodeBlocks find_codebook_encoder(Type type);
EncodeBlocks find_level_encoder(Type type);
SearchBlocks find_codebook_search(Type type);
SearchBlocks find_plain_search(Type type);

} // namespace ridge::quant
