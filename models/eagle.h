// EAGLE-3 draft heads: files of their own, each for one model (blocks/eagle.cpp says what they compute).
#pragma once

#include "models/model.h"

namespace ridge::models {

bool is_eagle_head(const gguf::File& file);

// The Program of a model that `head` drafts for: it ends with logits and keeps the rows that the head takes, one for
// each token (Program::hidden). Both files must outlive it. Throws Error for what build_program throws, and where the
// head is not one of this model.
core::Program build_drafted(const gguf::File& model, const gguf::File& head, Ending ending = Ending::drafted);
// The head's Program, as build_draft_head describes it; but a text begins with its second token, at position 0: the
// first one has no row before it. With Ending::pictures batches may give tokens rows, unless the head is not as wide as
// the model (Program::row_width is 0 then). Both files must outlive it. Throws Error for what build_drafted throws.
core::Program build_eagle_head(const gguf::File& head, const gguf::File& model, Ending ending = Ending::logits);

} // namespace ridge::models
