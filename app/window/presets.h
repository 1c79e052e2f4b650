// Named system prompts and sampling options, in one file.
#pragma once

#include "api/snapshot.h"

#include <string>
#include <vector>

namespace ridge::app {

// Empty if there is no file. Throws Error if it cannot be parsed.
std::vector<api::Preset> read_presets(const std::string& path);
// Creates the folder. Throws Error.
void write_presets(const std::string& path, const std::vector<api::Preset>& presets);

} // namespace ridge::app
