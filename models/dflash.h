// DFlash draft heads in their own files.
#pragma once

#include "models/model.h"

namespace ridge::models {

bool is_dflash_head(const gguf::File& file);

// What a head reads at once: the last known token, then `mask` for each guess.
struct DraftBlock {
  int64_t tokens = 0;
  int32_t mask = 0;
};
// Throws Error for unusable values.
DraftBlock block_of(const gguf::File& head);

// Builds the head's Program. Tokens of the context are rows (Batch::rows): the model's hidden row (build_drafted), then
// 1. The tokens of a block follow them, with Batch::block_ends; the mask's logits are those of its own place. Both
// files must outlive it. Throws Error like build_drafted.
core::Program build_dflash_head(const gguf::File& head, const gguf::File& model);

} // namespace ridge::models
