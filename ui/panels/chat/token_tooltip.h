// What else a model thought of, beside the word of its answer that the mouse is over.
#pragma once

#include "core/view/snapshot.h"

#include <cstddef>

namespace ridge::ui {

// `byte`: of the answer's text, kNothingHovered: none.
void draw_token_tooltip(const core::Snapshot& now, const core::ChatMessage& answer, size_t byte);

} // namespace ridge::ui
