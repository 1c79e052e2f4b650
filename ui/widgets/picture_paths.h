// Which files are pictures or sounds, by their names: what is dropped or pasted is looked at no closer here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge::ui {

bool is_picture_name(std::string_view path);
// A text that consists of paths or file:// URLs of pictures that are there, one a line, as file managers copy them.
// Empty where it is another text.
std::vector<std::string> picture_paths(std::string_view text);

} // namespace ridge::ui
