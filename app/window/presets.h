// Named system prompts and sampling options, in one file.
#pragma once

#include "core/view/snapshot.h"

#include <string>
#include <vector>

namespace ridge::app {

// Empty if there is no file. Throws Error if it cannot be parsed.
std::vector<core::Preset> read_presets(const std::string& path);
// Creates the folder. Throws Error.
void write_presets(const std::string& path, const std::vector<core::Preset>& presets);

} // namespace ridge::app
