// Recently opened models, in $XDG_STATE_HOME/ridge/recent (~/.local/state/…), one path per line.
#pragma once

#include <string>
#include <vector>

namespace ridge::app {

std::vector<std::string> recent_files(); // latest first, without deleted files
// Ignores write errors.
void remember_file(const std::string& path);

} // namespace ridge::app
