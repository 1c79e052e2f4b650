#pragma once

#include "core/error.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::media {

// 8-bit RGB, rows from the top left.
struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb = {}; // [height][width][3]

  Picture() = default;
  Picture(int64_t width, int64_t height) : width(width), height(height), rgb(width * height * 3) {}
  uint8_t* row(int64_t y) { return rgb.data() + y * width * 3; }
  const uint8_t* row(int64_t y) const { return rgb.data() + y * width * 3; }
  bool operator==(const Picture&) const = default;
};

// Checked against the header before decoding.
struct PictureLimits {
  int64_t bytes = int64_t{64} << 20;   // file size
  int64_t pixels = int64_t{100} << 20; // three bytes each
};

// The message begins with the medium's name.
struct MediaError : core::Error {
  using Error::Error;
};
struct PictureError : MediaError {
  using MediaError::MediaError;
};

// JPEG, PNG, WebP, GIF (first frame), BMP or PPM: rotated by EXIF, transparency over white, colours taken as sRGB, 16
// bits rounded to 8. Throws PictureError, beginning with `name`, for other formats, several pictures, exceeded limits
// and truncated data.
Picture decode_picture(std::span<const std::byte> bytes, const std::string& name, const PictureLimits& limits = {});

// "image/png"; empty: none.
std::string_view type_of_picture(std::span<const std::byte> bytes);
bool is_picture_file(const std::string& path); // false also if unreadable

// Throws Error if unreadable or above the limit.
std::string read_picture_file(const std::string& path, const PictureLimits& limits = {});
Picture read_picture(const std::string& path, const PictureLimits& limits = {});

} // namespace ridge::media
