// Which model files were opened last: one path a line in $XDG_STATE_HOME/ridge/recent (~/.local/state/…).
#pragma once

#include <string>
#include <vector>

namespace ridge::app {

std::vector<std::string> recent_files(); // the last one first; those that are gone are left out
// Puts a file first. A state folder that cannot be written to is no error: then nothing is remembered.
void remember_file(const std::string& path);

} // namespace ridge::app
