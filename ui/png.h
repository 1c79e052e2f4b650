// Screenshots.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::ui {

// rgb: [height, width, 3], bottom row first as in OpenGL. Throws Error.
void write_png(const std::string& path, int width, int height, const std::vector<uint8_t>& rgb);

} // namespace ridge::ui
