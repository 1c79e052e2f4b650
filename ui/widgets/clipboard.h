// Pictures on the clipboard, which GLFW does not support.
#pragma once

#include <string>

namespace ridge::ui {

// A picture file in the first readable format. Waits up to ten seconds for the clipboard's owner. Empty: there is none,
// or no X11.
std::string clipboard_picture();

} // namespace ridge::ui
