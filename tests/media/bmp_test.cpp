// BMP files of all kinds give Pillow's pixels; malformed ones give one line of error.
#include "core/error.h"
#include "media/pictures/picture.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

using namespace ridge;
using media::Picture;

namespace {

constexpr uint32_t kByFields = 3;

std::string number(uint32_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i & 255);
  return text;
}

struct BmpFile {
  int32_t width, height; // below 0: from the top
  uint32_t bits, header = 40, compression = 0, colors = 0;
  std::vector<uint32_t> masks = {};
  std::string data = {};

  std::string text() const {
    std::string info, palette;
    for (uint32_t i = 0; bits <= 8 && i < (colors > 0 ? colors : 1U << bits); ++i) {
      palette += number(i * 29 + 11, 1) + number(i * 101 + 3, 1) + number(i * 53 + 7, 1);
      if (header != 12) palette += '\0';
    }
    if (header == 12) {
      info = number(header, 4) + number(width, 2) + number(height, 2) + number(1, 2) + number(bits, 2);
    } else {
      info = number(header, 4) + number(width, 4) + number(height, 4) + number(1, 2) + number(bits, 2) +
             number(compression, 4) + number(0, 4) + number(2835, 4) + number(2835, 4) + number(colors, 4) +
             number(0, 4);
      for (const uint32_t mask : masks) info += number(mask, 4);
      info.resize(std::max<size_t>(info.size(), header));
    }
    const std::string pixels = data.empty() ? lines() : data;
    const auto at = static_cast<uint32_t>(14 + info.size() + palette.size());
    return "BM" + number(at + static_cast<uint32_t>(pixels.size()), 4) + number(0, 4) + number(at, 4) + info + palette +
           pixels;
  }

 private:
  std::string lines() const {
    std::string all;
    const int32_t count = std::abs(height);
    for (int32_t line = 0; line < count; ++line) {
      const uint32_t y = height < 0 ? line : count - 1 - line;
      std::string one;
      for (uint32_t x = 0; x < static_cast<uint32_t>(width); ++x) {
        const uint32_t value = x * 37 + y * 101 + x * y * 7;
        if (bits >= 8) {
          one += number(value * 2654435761, static_cast<int>(bits / 8));
        } else {
          if (x * bits % 8 == 0) one += '\0';
          one.back() = static_cast<char>(one.back() | (value & ((1U << bits) - 1)) << (8 - bits - x * bits % 8));
        }
      }
      one.resize((one.size() + 3) / 4 * 4);
      all += one;
    }
    return all;
  }
};

Picture decode_bmp_text(const std::string& file, const media::PictureLimits& limits = {}) {
  return media::decode_picture(std::as_bytes(std::span(file)), "picture", limits);
}

std::string refusal_of_bmp(const std::string& file, const media::PictureLimits& limits = {}) {
  try {
    decode_bmp_text(file, limits);
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

int64_t weighted_sum(const Picture& picture) {
  int64_t sum = 0;
  for (int64_t i = 0; i < std::ssize(picture.rgb); ++i) sum += (i + 1) * picture.rgb[i];
  return sum;
}

// Indices of a picture with BmpFile's palette.
std::vector<int> indices_of(const Picture& picture) {
  std::vector<int> indices;
  for (size_t i = 0; i < picture.rgb.size(); i += 3) {
    int index = 0;
    while (index < 256 && static_cast<uint8_t>(index * 53 + 7) != picture.rgb[i]) ++index;
    indices.push_back(index);
  }
  return indices;
}

} // namespace

// The sums are those of Pillow's pixels.
TEST_CASE("BMP is read with every header, depth and direction as Pillow reads it") {
  const std::vector<std::pair<uint32_t, int64_t>> sums = {{1, 1840132},  {4, 4574322},  {8, 5143970},
                                                          {16, 4916920}, {24, 4789286}, {32, 4789286}};
  for (const auto& [bits, sum] : sums)
    for (const uint32_t header : {12, 40, 52, 56, 64, 108, 124}) {
      if (header == 12 && (bits == 16 || bits == 32)) continue;
      CAPTURE(bits);
      CAPTURE(header);
      const Picture picture = decode_bmp_text(BmpFile{13, 7, bits, header}.text());
      CHECK(picture.width == 13);
      CHECK(weighted_sum(picture) == sum);
      if (header != 12) CHECK(decode_bmp_text(BmpFile{13, -7, bits, header}.text()) == picture);
    }
  CHECK(weighted_sum(decode_bmp_text(BmpFile{13, 7, 8, 40, 0, 256}.text())) == 5143970);
}

TEST_CASE("bit fields of a BMP say where its colours are") {
  const auto sum = [](uint32_t bits, uint32_t header, std::vector<uint32_t> masks) {
    return weighted_sum(decode_bmp_text(BmpFile{9, 6, bits, header, kByFields, 0, std::move(masks)}.text()));
  };
  CHECK(sum(16, 40, {0xf800, 0x7e0, 0x1f}) == 1721677);
  CHECK(sum(16, 108, {0xf800, 0x7e0, 0x1f}) == 1721677);
  CHECK(sum(16, 40, {0x7c00, 0x3e0, 0x1f}) == 1704067);
  CHECK(sum(32, 40, {0xff0000, 0xff00, 0xff}) == 1648269);
  CHECK(sum(32, 108, {0xff0000, 0xff00, 0xff, 0xff000000}) == 2623725); // over white
  CHECK(sum(32, 124, {0xff, 0xff00, 0xff0000, 0xff000000}) == 2622587);
  // Alpha that is 0 everywhere is none; 10 bits become 8.
  const auto one = [](std::vector<uint32_t> masks, uint32_t pixel) {
    return decode_bmp_text(BmpFile{1, 1, 32, 124, kByFields, 0, std::move(masks), number(pixel, 4)}.text()).rgb;
  };
  CHECK(one({0xff, 0xff00, 0xff0000, 0xff000000}, 0x00302010) == std::vector<uint8_t>{0x10, 0x20, 0x30});
  CHECK(one({0x3ff00000, 0xffc00, 0x3ff, 0}, 0x3ff00000 | 512 << 10) == std::vector<uint8_t>{255, 127, 0});
  CHECK(one({0xff, 0, 0xff0000, 0}, 0x00302010) == std::vector<uint8_t>{0x10, 0, 0x30});
}

TEST_CASE("runs of a BMP are unpacked as Pillow does it") {
  const auto indices = [](const BmpFile& file) { return indices_of(decode_bmp_text(file.text())); };
  const std::string runs8 = {3, 5, 0,      3, 9, 8, 7, 0, 0, 0, 6, 1, 0, 0, 2,
                             3, 4, '\xc8', 0, 0, 0, 4, 1, 2, 3, 4, 2, 9, 0, 1};
  CHECK(indices({6, 4, 8, 40, 1, 0, {}, runs8}) == std::vector<int>{1, 2, 3, 4, 9, 9, 3, 3, 200, 200, 200, 200, //
                                                                    1, 1, 1, 1, 1, 1, 5, 5, 5,   9,   8,   7});
  const std::string runs4 = {5, 0x3a, 2, 0x77, 0, 0, 0, 5, 0x12, 0x34, 0x50, 0, 2, 0x6b, 0, 0, 7, 0x0f, 0, 0, 0, 1};
  CHECK(indices({7, 3, 4, 40, 2, 0, {}, runs4}) ==
        std::vector<int>{0, 15, 0, 15, 0, 15, 0, 1, 2, 3, 4, 5, 6, 11, 3, 10, 3, 10, 3, 7, 7});
  // What is skipped has the first colour; what does not fit is dropped; the last line needs no end.
  CHECK(indices({4, 3, 8, 40, 1, 0, {}, {1, 9, 0, 2, 1, 1, '\xff', 7, 0, 1}}) ==
        std::vector<int>{0, 0, 0, 0, 0, 0, 7, 7, 9, 0, 0, 0});
  CHECK(indices({2, 1, 8, 40, 1, 0, {}, {0, 3, 1, 2, 3, 0, 0, 0}}) == std::vector<int>{1, 2});
  CHECK(indices({2, 1, 8, 40, 1, 0, {}, {0, 2, '\xff', '\xff', 1, 5}}) == std::vector<int>{0, 0});
}

TEST_CASE("a BMP that is broken, too large or of another kind is one line of error") {
  const auto has = [](const std::string& line, const char* part) {
    return line.starts_with("picture: ") && line.find(part) != line.npos && line.find('\n') == line.npos;
  };
  const auto with = [](BmpFile file, const std::function<void(BmpFile&)>& change) {
    change(file);
    return refusal_of_bmp(file.text());
  };
  const BmpFile plain{5, 4, 24}, runs{6, 4, 8, 40, 1, 0, {}, {6, 1, 0, 0, 6, 1, 0, 0, 6, 1, 0, 0, 6, 1, 0, 1}};
  for (const BmpFile& file :
       {plain, runs, BmpFile{5, 4, 1, 12}, BmpFile{5, 4, 16, 124, kByFields, 0, {0xf800, 0x7e0, 0x1f}}})
    for (size_t size = 0; size < file.text().size() - 3; ++size) {
      CAPTURE(size);
      CHECK(has(refusal_of_bmp(file.text().substr(0, size)), size < 18 ? "" : "file is truncated"));
    }
  CHECK(has(refusal_of_bmp(plain.text(), {.pixels = 19}), "is 5 × 4 pixels, expected at most 19"));
  for (const int32_t side : {0, -1})
    CHECK(has(with(plain, [&](BmpFile& f) { f.width = side, f.data = "x"; }), "no pixels"));
  CHECK(
      has(with(plain, [](BmpFile& f) { f.width = 1 << 30, f.height = INT32_MIN, f.data = "x"; }), "2147483648 pixels"));
  CHECK(has(with(plain, [](BmpFile& f) { f.width = f.height = 9000, f.data = "x"; }), "file is truncated"));
  CHECK(has(with(plain, [](BmpFile& f) { f.header = 41; }), "a header of 41 bytes, expected 12, 40"));
  CHECK(has(with(plain, [](BmpFile& f) { f.bits = 2; }), "2 bits per pixel, expected 1, 4, 8"));
  CHECK(has(with(plain, [](BmpFile& f) { f.compression = 5; }),
            "compression 5 and 24 bits per pixel, which is not supported: save it as PNG"));
  CHECK(has(with(runs, [](BmpFile& f) { f.bits = 4; }), "compression 1 and 4 bits"));
  CHECK(has(with(runs, [](BmpFile& f) { f.height = -4; }), "compression 1 and 8 bits per pixel stored top-down"));
  CHECK(has(with(runs, [](BmpFile& f) { f.colors = 1; }), "a colour outside its palette"));
  CHECK(has(refusal_of_bmp(BmpFile{1, 1, 32, 40, kByFields, 0, {0xf0f, 1, 2}}.text()), "bit field 0xf0f has gaps"));
  std::string far = plain.text();
  far.replace(10, 4, "\xff\xff\xff\xff");
  CHECK(has(refusal_of_bmp(far), "file is truncated"));
}

TEST_CASE("a text that begins with BM is no picture") {
  const auto type = [](const std::string& file) { return media::type_of_picture(std::as_bytes(std::span(file))); };
  CHECK(type(BmpFile{2, 2, 24}.text()) == "image/bmp");
  CHECK(type("BM and more, as long as a header is") == "");
}
