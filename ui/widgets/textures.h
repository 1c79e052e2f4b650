// Textures of pictures; freed after a frame without use.
#pragma once

#include "api/pictures.h"

#include <imgui.h>

#include <memory>

namespace ridge::ui {

// Call only during a frame.
ImTextureID texture_of(const std::shared_ptr<const api::Pixels>& pixels);
// Call after each frame and before closing.
void free_unused_textures();

} // namespace ridge::ui
