// Metadata of mmproj files.
#pragma once

#include "convert/import/pictures/family.h"

#include <string>
#include <vector>

namespace ridge::convert::import {

// Appends general.architecture and clip.*. Throws Error for missing or unsupported settings.
PictureFields read_picture_fields(const PictureFamily& family, const Config& config, JsonFiles& files,
                                  gguf::Metadata& metadata, std::vector<std::string>& notes);

} // namespace ridge::convert::import
