// EAGLE-3 draft heads in their own files.
#pragma once

#include "core/program.h"
#include "gguf/gguf.h"

namespace ridge::models {

bool is_eagle_head(const gguf::File& file);

// Builds the Program of a model with logits and the rows that `head` takes, one per token (Program::hidden). Both files
// must outlive it. Throws Error like build_program, or if the head is for another model.
core::Program build_drafted(const gguf::File& model, const gguf::File& head);
// Builds the head's Program. Like build_draft_head's, but texts start with their second token at position 0, because
// the first has no previous row. Both files must outlive it. Throws Error like build_drafted.
core::Program build_eagle_head(const gguf::File& head, const gguf::File& model);

} // namespace ridge::models
