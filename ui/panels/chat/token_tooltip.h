// Alternatives for the token under the mouse.
#pragma once

#include "api/snapshot.h"

#include <cstddef>

namespace ridge::ui {

// `byte`: may be kNothingHovered.
void draw_token_tooltip(const api::Snapshot& now, const api::ChatMessage& answer, size_t byte);

} // namespace ridge::ui
