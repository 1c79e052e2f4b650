// What a prompt may have beside text: a picture or a sound, told apart by the first bytes of its file.
#pragma once

#include "media/picture.h"
#include "media/sound/sound.h"

#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace ridge::media {

using Medium = std::variant<Picture, Sound>;

// decode_picture() or decode_sound(), as the first bytes say.
Medium decode_medium(std::span<const std::byte> bytes, const std::string& name, const PictureLimits& limits = {});
std::string_view type_of_medium(std::span<const std::byte> bytes); // "image/png", "audio/wav"; empty: of none
bool is_medium_file(const std::string& path);                      // by its first bytes
std::string read_medium_file(const std::string& path);             // its bytes; throws as read_picture_file()
Medium read_medium(const std::string& path);

} // namespace ridge::media
