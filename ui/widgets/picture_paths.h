// Recognizes picture and sound files by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge::ui {

bool is_picture_name(std::string_view path);
// Existing paths or file:// URLs, one per line. Empty if the text is anything else.
std::vector<std::string> picture_paths(std::string_view text);

} // namespace ridge::ui
