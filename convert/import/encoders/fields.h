// Metadata of mmproj files.
#pragma once

#include "convert/import/encoders/family.h"

#include <string>
#include <vector>

namespace ridge::convert::import {

// Appends general.architecture and clip.*. `is_alone`: the file has one encoder. Throws Error for missing or
// unsupported settings.
EncoderFields read_encoder_fields(const EncoderFamily& family, const Config& config, JsonFiles& files, bool is_alone,
                                  gguf::Metadata& metadata, std::vector<std::string>& notes);

} // namespace ridge::convert::import
