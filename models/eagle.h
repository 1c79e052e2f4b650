// EAGLE-3 draft heads in their own files.
#pragma once

#include "models/blocks/draft_heads.h"
#include "models/model.h"

namespace ridge::models {

// Builds the Program of a model with logits and the rows that `head` takes, one per token (Program::hidden). Both files
// must outlive it. Throws Error like build_program, or if the head is for another model.
core::Program build_drafted(const gguf::File& model, const gguf::File& head, Ending ending = Ending::drafted);
// Builds the head's Program. Like build_draft_head's, but texts start with their second token at position 0, because
// the first has no previous row. With Ending::pictures batches may have rows, unless the head is not as wide as the
// model (Program::row_width is 0 then). Both files must outlive it. Throws Error like build_drafted.
core::Program build_eagle_head(const gguf::File& head, const gguf::File& model, Ending ending = Ending::logits);

} // namespace ridge::models
