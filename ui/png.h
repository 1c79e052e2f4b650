// Screenshots.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::ui {

// rgb: [height, width, 3], the bottom row first, as OpenGL gives it. Throws Error.
void write_png(const std::string& path, int width, int height, const std::vector<uint8_t>& rgb);

} // namespace ridge::ui
