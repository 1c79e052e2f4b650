// Pictures on the clipboard, which GLFW gives only texts of.
#pragma once

#include <string>

namespace ridge::ui {

// The bytes of a picture's file that another program has put there, in the first format of those that can be read.
// Waits ten seconds for that program at most. Empty: there is none, or this build or desktop has no X11.
std::string clipboard_picture();

} // namespace ridge::ui
