#include "media/pictures/picture.h"

#include "core/error.h"
#include "core/files/read_file.h"
#include "core/strings/printable.h"
#include "media/pictures/formats.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>
#include <utility>

namespace ridge::media {

using core::throw_error;

namespace {

using namespace std::string_view_literals;

struct Format {
  std::string_view start, type;
  DecodedPicture (*decode)(std::span<const std::byte>, const PictureLimits&);
  size_t then_at = 0;
  std::string_view then = "";
};

constexpr std::array kFormats = {
    Format{"\xff\xd8\xff", "image/jpeg", decode_jpeg},     Format{"\x89PNG\r\n\x1a\n", "image/png", decode_png},
    Format{"RIFF", "image/webp", decode_webp, 8, "WEBP"},  Format{"GIF8", "image/gif", decode_gif},
    Format{"BM", "image/bmp", decode_bmp, 15, "\0\0\0"sv}, // a header of less than 256 bytes
    Format{"P6", "image/x-portable-pixmap", decode_ppm}};
constexpr size_t kStart = 18;

const Format* format_of(std::span<const std::byte> bytes) {
  const auto stands_at = [&](size_t at, std::string_view text) {
    return text.empty() ||
           (bytes.size() >= at + text.size() && std::memcmp(bytes.data() + at, text.data(), text.size()) == 0);
  };
  const auto at = std::ranges::find_if(kFormats, [&](const Format& format) {
    return stands_at(0, format.start) && stands_at(format.then_at, format.then);
  });
  return at == kFormats.end() ? nullptr : &*at;
}

// 2 to 4 mirror or rotate by 180°; 5 to 8 also transpose.
Picture oriented(Picture from, int orientation) {
  if (orientation <= 1 || orientation > 8) return from;
  const bool transposes = orientation >= 5;
  Picture to(transposes ? from.height : from.width, transposes ? from.width : from.height);
  const bool mirrors_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool mirrors_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  for (int64_t y = 0; y < to.height; ++y)
    for (int64_t x = 0; x < to.width; ++x) {
      int64_t from_x = transposes ? y : x, from_y = transposes ? x : y;
      if (mirrors_x) from_x = from.width - 1 - from_x;
      if (mirrors_y) from_y = from.height - 1 - from_y;
      std::copy_n(from.row(from_y) + from_x * 3, 3, to.row(y) + x * 3);
    }
  return to;
}

uint32_t number_at(std::span<const std::byte> bytes, size_t at, int count, bool big) {
  uint32_t number = 0;
  for (int i = 0; i < count; ++i) number |= static_cast<uint32_t>(bytes[at + i]) << 8 * (big ? count - 1 - i : i);
  return number;
}

} // namespace

void check_size(int64_t width, int64_t height, const PictureLimits& limits) {
  if (width < 1 || height < 1) throw_error("has no pixels");
  constexpr int64_t kMaxSide = std::numeric_limits<int32_t>::max();
  if (width > kMaxSide || height > kMaxSide || width > limits.pixels / height)
    throw_error("is {} × {} pixels, expected at most {} in total: make it smaller", width, height, limits.pixels);
}

Picture over_white(std::span<const uint8_t> rgba, int64_t width, int64_t height) {
  Picture picture(width, height);
  for (int64_t i = 0; i < width * height; ++i) {
    const uint8_t* pixel = &rgba[4 * i];
    const int alpha = pixel[3];
    for (int c = 0; c < 3; ++c)
      picture.rgb[3 * i + c] = static_cast<uint8_t>((pixel[c] * alpha + 255 * (255 - alpha) + 127) / 255);
  }
  return picture;
}

int orientation_of(std::span<const std::byte> exif) {
  constexpr size_t kHeader = 8, kEntry = 12;
  if (exif.size() < kHeader) return 1;
  const bool big = exif[0] == std::byte{'M'};
  const size_t first = number_at(exif, 4, 4, big);
  if (first > exif.size() - 2) return 1;
  const size_t entries = std::min<size_t>(number_at(exif, first, 2, big), (exif.size() - first - 2) / kEntry);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = first + 2 + i * kEntry;
    constexpr uint32_t kOrientation = 0x112;
    if (number_at(exif, entry, 2, big) != kOrientation) continue;
    const auto orientation = static_cast<int>(number_at(exif, entry + 8, 2, big));
    return orientation >= 1 && orientation <= 8 ? orientation : 1;
  }
  return 1;
}

Picture decode_picture(std::span<const std::byte> bytes, const std::string& name, const PictureLimits& limits) {
  try {
    if (std::ssize(bytes) > limits.bytes)
      throw_error("has {} bytes, expected at most {}: make it smaller", bytes.size(), limits.bytes);
    const Format* format = format_of(bytes);
    if (!format) throw_error("is not a supported image: expected JPEG, PNG, WebP, GIF, BMP or PPM");
    DecodedPicture decoded = format->decode(bytes, limits);
    return oriented(std::move(decoded.picture), decoded.orientation);
  } catch (const std::bad_alloc&) {
    throw PictureError(fmt::format("{}: not enough memory for the image", core::printable(name)));
  } catch (const core::Error& error) {
    throw PictureError(fmt::format("{}: {}", core::printable(name), error.what()));
  }
}

std::string_view type_of_picture(std::span<const std::byte> bytes) {
  const Format* format = format_of(bytes);
  return format ? format->type : "";
}

bool is_picture_file(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false; // a pipe would block
  std::array<char, kStart> start{};
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), start.size());
  return format_of(std::as_bytes(std::span(start).first(file.gcount())));
}

std::string read_picture_file(const std::string& path, const PictureLimits& limits) {
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(path, failed);
  if (!failed && bytes > static_cast<uintmax_t>(limits.bytes))
    throw_error("{}: has {} bytes, expected at most {} for an image: make it smaller", core::printable(path), bytes,
                limits.bytes);
  return core::read_text_file(path, limits.bytes); // the file may have grown
}

Picture read_picture(const std::string& path, const PictureLimits& limits) {
  const std::string file = read_picture_file(path, limits);
  return decode_picture(std::as_bytes(std::span(file)), path, limits);
}

} // namespace ridge::media
