// Replaces command-line terms by the window's.
#pragma once

#include <string>

namespace ridge::app {

// "give --allow-requantize" → "tick “packed types too, at a loss”".
std::string in_window_words(std::string line);

} // namespace ridge::app
