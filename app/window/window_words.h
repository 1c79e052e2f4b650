// Errors and notices name what commands have; the window has other names for it.
#pragma once

#include <string>

namespace ridge::app {

// "give --allow-requantize" → "tick “packed types too, at a loss”".
std::string in_window_words(std::string line);

} // namespace ridge::app
