// EAGLE-3 draft heads: files of their own, each for one model (blocks/eagle.cpp says what they compute).
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"

namespace ridge::models {

bool is_eagle_head(const gguf::File& file);

// The Program of a model that `head` drafts for: it ends with logits and keeps the rows that the head takes, one for
// each token (Program::hidden). Both files must outlive it. Throws Error for what build_program throws, and where the
// head is not one of this model.
core::Program build_drafted(const gguf::File& model, const gguf::File& head);
// The head's Program, as build_draft_head describes it; but a text begins with its second token, at position 0: the
// first one has no row before it. Both files must outlive it. Throws Error for what build_drafted throws.
core::Program build_eagle_head(const gguf::File& head, const gguf::File& model);

} // namespace ridge::models
