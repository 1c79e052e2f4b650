// The metadata of an mmproj file, from config.json and preprocessor_config.json.
#pragma once

#include "convert/import/pictures/family.h"

#include <string>
#include <vector>

namespace ridge::convert::import {

// Appends general.architecture and clip.* to `metadata`. Throws Error for what is missing, and for what the family's
// projector cannot run.
PictureFields read_picture_fields(const PictureFamily& family, const Config& config, JsonFiles& files,
                                  gguf::Metadata& metadata, std::vector<std::string>& notes);

} // namespace ridge::convert::import
