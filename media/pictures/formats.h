// Decoders throw Error; decode_picture() prepends the picture's name.
#pragma once

#include "media/pictures/picture.h"

#include <string_view>

namespace ridge::media {

// EXIF's orientation, 1 to 8.
struct DecodedPicture {
  Picture picture;
  int orientation = 1;
};

DecodedPicture decode_jpeg(std::span<const std::byte> bytes, const PictureLimits& limits);
DecodedPicture decode_png(std::span<const std::byte> bytes, const PictureLimits& limits);
DecodedPicture decode_webp(std::span<const std::byte> bytes, const PictureLimits& limits);
DecodedPicture decode_gif(std::span<const std::byte> bytes, const PictureLimits& limits);
DecodedPicture decode_bmp(std::span<const std::byte> bytes, const PictureLimits& limits);
DecodedPicture decode_ppm(std::span<const std::byte> bytes, const PictureLimits& limits);

// Throws Error if empty or above the limit.
void check_size(int64_t width, int64_t height, const PictureLimits& limits);

// exif: a TIFF file. 1 if unreadable.
int orientation_of(std::span<const std::byte> exif);

// [height][width][4], over white.
Picture over_white(std::span<const uint8_t> rgba, int64_t width, int64_t height);

} // namespace ridge::media
