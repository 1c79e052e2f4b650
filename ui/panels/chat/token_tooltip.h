// Alternatives for the token under the mouse.
#pragma once

#include "core/view/snapshot.h"

#include <cstddef>

namespace ridge::ui {

// `byte`: may be kNothingHovered.
void draw_token_tooltip(const core::Snapshot& now, const core::ChatMessage& answer, size_t byte);

} // namespace ridge::ui
