// DFlash draft heads in their own files.
#pragma once

#include "models/blocks/draft_heads.h"
#include "models/model.h"

namespace ridge::models {

// Builds the head's Program. Tokens of the context are rows (Batch::rows): the model's hidden row (build_drafted), then
// 1. The tokens of a block follow them, with Batch::block_ends; a mask's logits are for its place, not the next. Both
// files must outlive it. Throws Error like build_drafted.
core::Program build_dflash_head(const gguf::File& head, const gguf::File& model);

} // namespace ridge::models
