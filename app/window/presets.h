// Presets of the window: system prompts and sampling by name, in one file of the user's.
#pragma once

#include "core/view/snapshot.h"

#include <string>
#include <vector>

namespace ridge::app {

// By name; none where there is no file. Throws Error where it cannot be understood.
std::vector<core::Preset> read_presets(const std::string& path);
// Creates the folder. Throws Error where the file cannot be written.
void write_presets(const std::string& path, const std::vector<core::Preset>& presets);

} // namespace ridge::app
