// A file header, an information header of one of seven sizes, bit fields, a palette, then lines from the bottom.
#include "core/error.h"
#include "media/pictures/formats.h"

#include <algorithm>
#include <array>
#include <bit>

namespace ridge::media {
namespace {

using core::throw_error;

constexpr size_t kFileHeader = 14;
enum Compression : uint32_t { kNone, kRle8, kRle4, kBitFields, kAlphaBitFields = 6 };

class BmpBytes {
 public:
  explicit BmpBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint8_t at(size_t place) const {
    if (place >= bytes_.size()) throw_error("cannot be decoded: the file is truncated");
    return static_cast<uint8_t>(bytes_[place]);
  }
  uint32_t number(size_t place, int count) const { // little-endian
    uint32_t number = 0;
    for (int i = 0; i < count; ++i) number |= static_cast<uint32_t>(at(place + i)) << 8 * i;
    return number;
  }
  int64_t size() const { return std::ssize(bytes_); }

 private:
  std::span<const std::byte> bytes_;
};

struct BitField {
  uint32_t mask = 0;

  // Rounded down, as Pillow does.
  uint8_t of(uint32_t pixel, uint8_t otherwise = 0) const {
    if (mask == 0) return otherwise;
    const uint32_t largest = mask >> std::countr_zero(mask), value = (pixel & mask) >> std::countr_zero(mask);
    return static_cast<uint8_t>(largest == 255 ? value : uint64_t{value} * 255 / largest);
  }
};

struct BmpHeader {
  int64_t width = 0, height = 0;
  bool top_down = false;
  uint32_t bits = 0, compression = kNone;
  size_t pixels = 0;                // their place in the file
  std::array<BitField, 4> fields{}; // red, green, blue, alpha
  std::vector<std::array<uint8_t, 3>> palette = {};
};

void read_fields(const BmpBytes& file, size_t header, BmpHeader& bmp) {
  if (bmp.compression == kNone && bmp.bits == 16) bmp.fields = {{{0x7c00}, {0x3e0}, {0x1f}, {0}}};
  if (bmp.compression == kNone && bmp.bits > 16) bmp.fields = {{{0xff0000}, {0xff00}, {0xff}, {0}}};
  if (bmp.compression == kNone || bmp.bits < 16) return;
  constexpr size_t kFields = kFileHeader + 40, kWithAlpha = 56; // behind a header of 40 bytes, inside a longer one
  const bool has_alpha = header >= kWithAlpha || bmp.compression == kAlphaBitFields;
  for (size_t i = 0; i < (has_alpha ? 4 : 3); ++i) {
    const uint32_t mask = bmp.fields[i].mask = file.number(kFields + 4 * i, 4);
    if (mask != 0 && !std::has_single_bit(uint64_t{mask >> std::countr_zero(mask)} + 1))
      throw_error("cannot be decoded: bit field {:#x} has gaps", mask);
  }
}

void read_palette(const BmpBytes& file, size_t header, uint32_t named, BmpHeader& bmp) {
  constexpr size_t kCore = 12;
  const uint32_t most = 1U << bmp.bits, colors = named == 0 ? most : std::min(named, most);
  const size_t step = header == kCore ? 3 : 4;
  for (uint32_t i = 0; i < colors; ++i) {
    const size_t at = kFileHeader + header + i * step;
    bmp.palette.push_back({file.at(at + 2), file.at(at + 1), file.at(at)});
  }
}

void check_kind(const BmpHeader& bmp) {
  constexpr std::array<uint32_t, 6> kBits = {1, 4, 8, 16, 24, 32};
  if (!std::ranges::count(kBits, bmp.bits))
    throw_error("has {} bits per pixel, expected 1, 4, 8, 16, 24 or 32 in a BMP file", bmp.bits);
  const bool by_fields = bmp.compression == kBitFields || bmp.compression == kAlphaBitFields;
  if (bmp.compression == kNone || (bmp.compression == kRle8 && bmp.bits == 8 && !bmp.top_down) ||
      (bmp.compression == kRle4 && bmp.bits == 4 && !bmp.top_down) || (by_fields && (bmp.bits == 16 || bmp.bits == 32)))
    return;
  throw_error("is a BMP file with compression {} and {} bits per pixel{}, which is not supported: save it as PNG",
              bmp.compression, bmp.bits, bmp.top_down ? " stored top-down" : "");
}

BmpHeader read_header(const BmpBytes& file, const PictureLimits& limits) {
  constexpr size_t kCore = 12;
  constexpr std::array<uint32_t, 7> kHeaders = {kCore, 40, 52, 56, 64, 108, 124};
  const uint32_t header = file.number(kFileHeader, 4);
  if (!std::ranges::count(kHeaders, header))
    throw_error("has a header of {} bytes, expected 12, 40, 52, 56, 64, 108 or 124 in a BMP file", header);
  BmpHeader bmp;
  uint32_t colors = 0;
  if (header == kCore) {
    bmp.width = file.number(18, 2);
    bmp.height = file.number(20, 2);
    bmp.bits = file.number(24, 2);
  } else {
    bmp.width = static_cast<int32_t>(file.number(18, 4));
    bmp.height = static_cast<int32_t>(file.number(22, 4));
    bmp.top_down = bmp.height < 0;
    bmp.height = std::abs(bmp.height);
    bmp.bits = file.number(28, 2);
    bmp.compression = file.number(30, 4);
    colors = file.number(46, 4);
  }
  check_size(bmp.width, bmp.height, limits);
  check_kind(bmp);
  bmp.pixels = file.number(10, 4);
  read_fields(file, header, bmp);
  if (bmp.bits <= 8) read_palette(file, header, colors, bmp);
  return bmp;
}

void put_color(const BmpHeader& bmp, uint32_t index, uint8_t* pixel) {
  if (index >= bmp.palette.size()) throw_error("cannot be decoded: it uses a colour outside its palette");
  std::ranges::copy(bmp.palette[index], pixel);
}

// `indices` of 4 or 8 bits begin at byte `at`; runs repeat its first byte. Pixels outside the picture are dropped.
void put_run(const BmpBytes& file, const BmpHeader& bmp, size_t at, bool repeats, int64_t count, int64_t x,
             uint8_t* line) {
  count = std::min(count, bmp.width - x);
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t byte = file.at(repeats ? at : at + i * bmp.bits / 8);
    put_color(bmp, bmp.bits == 8 ? byte : i % 2 == 0 ? byte >> 4 : byte & 15, line + 3 * (x + i));
  }
}

// Pixels that are skipped have the first colour.
Picture read_runs(const BmpBytes& file, const BmpHeader& bmp) {
  enum Escape { kEndOfLine, kEnd, kSkip };
  Picture picture(bmp.width, bmp.height);
  for (size_t i = 0; i < picture.rgb.size(); i += 3) put_color(bmp, 0, &picture.rgb[i]);
  int64_t x = 0, y = 0; // y from the bottom
  for (size_t at = bmp.pixels; y < bmp.height;) {
    const int64_t repeats = file.at(at), code = file.at(at + 1);
    uint8_t* line = picture.row(bmp.height - 1 - y);
    at += 2;
    if (repeats > 0) {
      put_run(file, bmp, at - 1, true, repeats, x, line);
      x += repeats;
    } else if (code == kEndOfLine) {
      x = 0, ++y;
    } else if (code == kEnd) {
      break;
    } else if (code == kSkip) {
      x += file.at(at), y += file.at(at + 1);
      at += 2;
    } else {
      put_run(file, bmp, at, false, code, x, line);
      x += code;
      at += (code * bmp.bits + 15) / 16 * 2;
    }
  }
  return picture;
}

// Some programs leave the alpha of opaque pictures 0.
void check_alpha(std::vector<uint8_t>& rgba) {
  for (size_t i = 3; i < rgba.size(); i += 4)
    if (rgba[i] != 0) return;
  for (size_t i = 3; i < rgba.size(); i += 4) rgba[i] = 255;
}

Picture read_lines(const BmpBytes& file, const BmpHeader& bmp) {
  const auto pixels = static_cast<int64_t>(bmp.pixels);
  const int64_t line_bytes = (bmp.width * bmp.bits + 7) / 8, step = (line_bytes + 3) / 4 * 4;
  if (file.size() < pixels + (bmp.height - 1) * step + line_bytes)
    throw_error("cannot be decoded: the file is truncated");
  Picture picture(bmp.palette.empty() ? 0 : bmp.width, bmp.height);
  std::vector<uint8_t> rgba(bmp.palette.empty() ? bmp.width * bmp.height * 4 : 0);
  const auto per_byte = static_cast<int64_t>(8 / bmp.bits); // indices, the first in the highest bits
  for (int64_t y = 0; y < bmp.height; ++y) {
    const size_t line = bmp.pixels + (bmp.top_down ? y : bmp.height - 1 - y) * step;
    for (int64_t x = 0; x < bmp.width; ++x) {
      if (per_byte > 0) {
        const int shift = static_cast<int>(8 - bmp.bits * (x % per_byte + 1));
        put_color(bmp, file.at(line + x / per_byte) >> shift & ((1U << bmp.bits) - 1), picture.row(y) + 3 * x);
        continue;
      }
      const auto bytes = static_cast<int>(bmp.bits / 8);
      const uint32_t pixel = file.number(line + x * bytes, bytes);
      uint8_t* to = &rgba[4 * (y * bmp.width + x)];
      for (int c = 0; c < 4; ++c) to[c] = bmp.fields[c].of(pixel, c == 3 ? 255 : 0);
    }
  }
  if (per_byte > 0) return picture;
  check_alpha(rgba);
  return over_white(rgba, bmp.width, bmp.height);
}

} // namespace

DecodedPicture decode_bmp(std::span<const std::byte> bytes, const PictureLimits& limits) {
  const BmpBytes file(bytes);
  const BmpHeader bmp = read_header(file, limits);
  const bool is_packed = bmp.compression == kRle8 || bmp.compression == kRle4;
  return {is_packed ? read_runs(file, bmp) : read_lines(file, bmp)};
}

} // namespace ridge::media
