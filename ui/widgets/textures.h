// Pictures as textures. One is uploaded when it is drawn, and freed after a frame that did not draw it.
#pragma once

#include "core/view/pictures.h"

#include <imgui.h>

#include <memory>

namespace ridge::ui {

// While a frame is made.
ImTextureID texture_of(const std::shared_ptr<const core::Pixels>& pixels);
// After each frame, and before the window goes.
void free_unused_textures();

} // namespace ridge::ui
