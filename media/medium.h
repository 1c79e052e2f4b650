// A picture or sound, detected by its first bytes.
#pragma once

#include "media/pictures/picture.h"
#include "media/sound/sound.h"

#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace ridge::media {

using Medium = std::variant<Picture, Sound>;

Medium decode_medium(std::span<const std::byte> bytes, const std::string& name, const PictureLimits& limits = {});
std::string_view type_of_medium(std::span<const std::byte> bytes); // "image/png", "audio/wav"; empty: neither
bool is_medium_file(const std::string& path);
std::string read_medium_file(const std::string& path);
Medium read_medium(const std::string& path);

} // namespace ridge::media
