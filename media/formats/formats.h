// One decoder per format. Each throws Error without the picture's name, which decode_picture() puts before it.
#pragma once

#include "media/picture.h"

#include <string_view>

namespace ridge::media {

// A picture as it is stored, and which way it is to be turned: the number of EXIF's tag Orientation, 1 to 8.
struct Stored {
  Picture picture;
  int orientation = 1;
};

Stored decode_jpeg(std::span<const std::byte> bytes, const PictureLimits& limits);
Stored decode_png(std::span<const std::byte> bytes, const PictureLimits& limits);
Stored decode_webp(std::span<const std::byte> bytes, const PictureLimits& limits);
Stored decode_gif(std::span<const std::byte> bytes, const PictureLimits& limits);
Stored decode_ppm(std::span<const std::byte> bytes, const PictureLimits& limits);

// Throws Error for a picture without pixels, or with more than the limit.
void check_size(int64_t width, int64_t height, const PictureLimits& limits);

// What EXIF data (a TIFF file) say of the orientation; 1 where they say nothing that can be read.
int orientation_of(std::span<const std::byte> exif);

// Pixels with an alpha each, [height][width][4], over white.
Picture over_white(std::span<const uint8_t> rgba, int64_t width, int64_t height);

} // namespace ridge::media
