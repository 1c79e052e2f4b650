// What another program or a file gives a command on standard input.
#pragma once

#include <string>

namespace ridge::app {

// All of it, without the line breaks at its end; empty where standard input is a terminal or a device. Says so on
// stderr where it has to wait: a pipe that is never closed never ends.
std::string piped_text();

} // namespace ridge::app
