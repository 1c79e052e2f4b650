// Pictures: decoded from the formats that people have them in.
#pragma once

#include "core/error.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::media {

// 8 bits of red, green and blue for each pixel, row by row from the top left.
struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb = {}; // [height][width][3]

  Picture() = default;
  Picture(int64_t width, int64_t height) : width(width), height(height), rgb(width * height * 3) {}
  uint8_t* row(int64_t y) { return rgb.data() + y * width * 3; }
  const uint8_t* row(int64_t y) const { return rgb.data() + y * width * 3; }
  bool operator==(const Picture&) const = default;
};

// What a picture may be at most. Its header is checked before anything is decoded.
struct PictureLimits {
  int64_t bytes = int64_t{64} << 20;   // of the file
  int64_t pixels = int64_t{100} << 20; // three bytes each
};

// What is wrong with a picture, or a sound (media/sound/), in a line that begins with its name.
struct MediaError : core::Error {
  using Error::Error;
};
struct PictureError : MediaError {
  using MediaError::MediaError;
};

// A JPEG, PNG, WebP, GIF or PPM file, as it is to be looked at: turned as its EXIF data say, over white where it is
// transparent, of a GIF the first frame. Colours are taken as sRGB, 16 bits are rounded to 8. `name` begins the
// PictureError that is thrown for what is no such picture, has more than one, is beyond a limit, or ends early.
Picture decode_picture(std::span<const std::byte> bytes, const std::string& name, const PictureLimits& limits = {});

// "image/png": what the first bytes say; empty: they are no such picture's.
std::string_view type_of_picture(std::span<const std::byte> bytes);
bool is_picture_file(const std::string& path); // by its first bytes; false also where none can be read

// The bytes of a file at `path`. Throws Error where it cannot be read, or has more than a picture may have.
std::string read_picture_file(const std::string& path, const PictureLimits& limits = {});
// decode_picture() of them.
Picture read_picture(const std::string& path, const PictureLimits& limits = {});

} // namespace ridge::media
