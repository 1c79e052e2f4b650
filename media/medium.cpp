#include "media/medium.h"

#include "core/strings/printable.h"

#include <fmt/format.h>

namespace ridge::media {

Medium decode_medium(std::span<const std::byte> bytes, const std::string& name, const PictureLimits& limits) {
  if (!type_of_sound(bytes).empty()) return decode_sound(bytes, name);
  if (!type_of_picture(bytes).empty()) return decode_picture(bytes, name, limits);
  throw PictureError(
      fmt::format("{}: not a supported image (JPEG, PNG, WebP, GIF, BMP or PPM) or audio file (WAV, FLAC, MP3 or Ogg)",
                  core::printable(name)));
}

std::string_view type_of_medium(std::span<const std::byte> bytes) {
  const std::string_view sound = type_of_sound(bytes);
  return sound.empty() ? type_of_picture(bytes) : sound;
}

bool is_medium_file(const std::string& path) { return is_picture_file(path) || is_sound_file(path); }

std::string read_medium_file(const std::string& path) {
  return is_sound_file(path) ? read_sound_file(path) : read_picture_file(path);
}

Medium read_medium(const std::string& path) {
  const std::string file = read_medium_file(path);
  return decode_medium(std::as_bytes(std::span(file)), path);
}

} // namespace ridge::media
