// All formats must decode; malformed files give one line of error.
#include "core/error.h"
#include "media/pictures/picture.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <gif_lib.h>
#include <jpeglib.h>
#include <png.h>
#include <webp/encode.h>

using namespace ridge;
using media::Picture;

namespace {

Picture sample(int64_t width, int64_t height) {
  Picture picture(width, height);
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      picture.row(y)[3 * x] = static_cast<uint8_t>(x * 255 / width);
      picture.row(y)[3 * x + 1] = static_cast<uint8_t>(y * 255 / height);
      picture.row(y)[3 * x + 2] = static_cast<uint8_t>((x + y) % 200);
    }
  return picture;
}

std::string text_of(const uint8_t* bytes, size_t count) { return {reinterpret_cast<const char*>(bytes), count}; }

std::string ppm(const Picture& picture) {
  return fmt::format("P6\n# made by a test\n{} {}\n255\n", picture.width, picture.height) +
         text_of(picture.rgb.data(), picture.rgb.size());
}

struct PngKind {
  int color, bits;
  bool interlaced = false;
};

std::string png(int64_t width, int64_t height, const PngKind& kind, const std::string& rows,
                const std::string& exif = "") {
  std::string file;
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(writer);
  png_set_write_fn(
      writer, &file,
      [](png_structp png, png_bytep data, size_t count) {
        static_cast<std::string*>(png_get_io_ptr(png))->append(text_of(data, count));
      },
      [](png_structp) {});
  png_set_IHDR(writer, info, width, height, kind.bits, kind.color,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (kind.color == PNG_COLOR_TYPE_PALETTE) {
    const png_color palette[] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {9, 8, 7}};
    const png_byte alpha[] = {255, 255, 0};
    png_set_PLTE(writer, info, palette, 4);
    png_set_tRNS(writer, info, alpha, 3, nullptr);
  }
  std::string exif_copy = exif;
  if (!exif.empty()) png_set_eXIf_1(writer, info, exif.size(), reinterpret_cast<png_bytep>(exif_copy.data()));
  png_write_info(writer, info);
  std::string copy = rows;
  std::vector<png_bytep> pointers;
  for (int64_t y = 0; y < height; ++y)
    pointers.push_back(reinterpret_cast<png_bytep>(copy.data()) + y * png_get_rowbytes(writer, info));
  png_write_image(writer, pointers.data());
  png_write_end(writer, info);
  png_destroy_write_struct(&writer, &info);
  return file;
}

std::string png(const Picture& picture, const std::string& exif = "") {
  return png(picture.width, picture.height, {PNG_COLOR_TYPE_RGB, 8}, text_of(picture.rgb.data(), picture.rgb.size()),
             exif);
}

std::string jpeg(const Picture& picture, bool progressive = false, const std::string& exif = "") {
  jpeg_compress_struct writer;
  jpeg_error_mgr errors;
  writer.err = jpeg_std_error(&errors);
  jpeg_create_compress(&writer);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&writer, &bytes, &count);
  writer.image_width = picture.width;
  writer.image_height = picture.height;
  writer.input_components = 3;
  writer.in_color_space = JCS_RGB;
  jpeg_set_defaults(&writer);
  jpeg_set_quality(&writer, 98, TRUE);
  for (int i = 0; i < writer.num_components; ++i)
    writer.comp_info[i].h_samp_factor = writer.comp_info[i].v_samp_factor = 1;
  if (progressive) jpeg_simple_progression(&writer);
  jpeg_start_compress(&writer, TRUE);
  if (!exif.empty()) {
    const std::string marker = std::string("Exif\0\0", 6) + exif;
    jpeg_write_marker(&writer, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(marker.data()), marker.size());
  }
  for (int64_t y = 0; y < picture.height; ++y) {
    auto* row = const_cast<JSAMPROW>(picture.row(y));
    jpeg_write_scanlines(&writer, &row, 1);
  }
  jpeg_finish_compress(&writer);
  jpeg_destroy_compress(&writer);
  std::string file = text_of(bytes, count);
  std::free(bytes);
  return file;
}

std::string webp(const Picture& picture) {
  uint8_t* bytes = nullptr;
  const size_t count =
      WebPEncodeLosslessRGB(picture.rgb.data(), static_cast<int>(picture.width), static_cast<int>(picture.height),
                            static_cast<int>(3 * picture.width), &bytes);
  std::string file = text_of(bytes, count);
  WebPFree(bytes);
  return file;
}

struct GifFrame {
  int left, top, width, height;
  std::string pixels; // palette indices
  bool interlaced = false;
  int transparent = NO_TRANSPARENT_COLOR;
};

std::string gif(int width, int height, const std::vector<GifFrame>& frames, bool colors_of_frame = false) {
  std::string file;
  int problem = 0;
  GifFileType* writer = EGifOpen(
      &file,
      [](GifFileType* gif, const GifByteType* data, int count) {
        static_cast<std::string*>(gif->UserData)->append(text_of(data, count));
        return count;
      },
      &problem);
  const GifColorType colors[] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {9, 8, 7}};
  ColorMapObject* map = GifMakeMapObject(4, colors);
  EGifSetGifVersion(writer, true);
  EGifPutScreenDesc(writer, width, height, 2, 0, colors_of_frame ? nullptr : map);
  for (const GifFrame& frame : frames) {
    if (frame.transparent != NO_TRANSPARENT_COLOR) {
      GifByteType block[4];
      const GraphicsControlBlock control = {DISPOSAL_UNSPECIFIED, false, 10, frame.transparent};
      EGifPutExtension(writer, GRAPHICS_EXT_FUNC_CODE, static_cast<int>(EGifGCBToExtension(&control, block)), block);
    }
    EGifPutImageDesc(writer, frame.left, frame.top, frame.width, frame.height, frame.interlaced,
                     colors_of_frame ? map : nullptr);
    std::string pixels = frame.pixels;
    EGifPutLine(writer, reinterpret_cast<GifPixelType*>(pixels.data()), static_cast<int>(pixels.size()));
  }
  GifFreeMapObject(map);
  EGifCloseFile(writer, &problem);
  return file;
}

// TIFF header with orientation.
std::string exif(int orientation) {
  return {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, static_cast<char>(orientation),
          0,   0,   0,  0, 0, 0, 0};
}

Picture decode(const std::string& file, const media::PictureLimits& limits = {}) {
  return media::decode_picture(std::as_bytes(std::span(file)), "picture", limits);
}

std::string refusal(const std::string& file, const media::PictureLimits& limits = {}) {
  try {
    decode(file, limits);
  } catch (const core::Error& error) {
    return error.what();
  }
  return "";
}

double mean_difference(const Picture& a, const Picture& b) {
  REQUIRE(a.width == b.width);
  REQUIRE(a.height == b.height);
  double sum = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) sum += std::abs(a.rgb[i] - b.rgb[i]);
  return sum / static_cast<double>(a.rgb.size());
}

} // namespace

TEST_CASE("pictures without loss are read as they were written") {
  const Picture picture = sample(37, 21);
  CHECK(decode(ppm(picture)) == picture);
  CHECK(decode(png(picture)) == picture);
  CHECK(decode(webp(picture)) == picture);
  const std::string rows = text_of(picture.rgb.data(), picture.rgb.size());
  CHECK(decode(png(37, 21, {PNG_COLOR_TYPE_RGB, 8, true}, rows)) == picture);
}

TEST_CASE("JPEG is read nearly as it was written, in one pass or in several") {
  const Picture picture = sample(37, 21);
  CHECK(mean_difference(decode(jpeg(picture)), picture) < 3);
  CHECK(decode(jpeg(picture, true)) == decode(jpeg(picture)));
}

TEST_CASE("16 bits are rounded, grey is red, green and blue, and what is transparent is over white") {
  const Picture deep = decode(png(2, 1, {PNG_COLOR_TYPE_GRAY, 16}, {'\x00', '\x90', '\xff', '\xff'}));
  CHECK(deep.rgb == std::vector<uint8_t>{1, 1, 1, 255, 255, 255});
  const Picture clear = decode(png(2, 1, {PNG_COLOR_TYPE_RGB_ALPHA, 8}, {10, 20, 30, 0, 10, 20, 30, '\xff'}));
  CHECK(clear.rgb == std::vector<uint8_t>{255, 255, 255, 10, 20, 30});
  const Picture palette = decode(png(4, 1, {PNG_COLOR_TYPE_PALETTE, 2}, {0b00011011}));
  CHECK(palette.rgb == std::vector<uint8_t>{255, 0, 0, 0, 255, 0, 255, 255, 255, 9, 8, 7});
  CHECK(decode("P6 1 1 65535 " + std::string{'\x00', '\x90', '\xff', '\xff', '\x80', '\x00'}).rgb ==
        std::vector<uint8_t>{1, 255, 128});
}

TEST_CASE("of a GIF the first frame is taken, as it lies on the canvas") {
  const std::vector<uint8_t> red = {255, 0, 0}, green = {0, 255, 0}, blue = {0, 0, 255}, white = {255, 255, 255};
  const auto joined = [](std::initializer_list<std::vector<uint8_t>> pixels) {
    std::vector<uint8_t> all;
    for (const std::vector<uint8_t>& pixel : pixels) all.insert(all.end(), pixel.begin(), pixel.end());
    return all;
  };
  const GifFrame whole = {0, 0, 2, 2, {0, 1, 2, 0}}, other = {0, 0, 2, 2, {3, 3, 3, 3}};
  for (const bool colors_of_frame : {false, true}) {
    const Picture first = decode(gif(2, 2, {whole, other}, colors_of_frame));
    CHECK(first.width == 2);
    CHECK(first.rgb == joined({red, green, blue, red}));
  }
  CHECK(decode(gif(2, 2, {{0, 0, 2, 2, {0, 1, 2, 0}, false, 2}})).rgb == joined({red, green, white, red}));
  CHECK(decode(gif(3, 1, {{1, 0, 1, 1, {2}}})).rgb == joined({white, blue, white}));
  CHECK(decode(gif(2, 1, {{1, 0, 3, 2, {1, 2, 2, 2, 2, 2}}})).rgb == joined({white, green})); // cropped
  // Interlaced frames store lines 0, 4, 2, 1, 3.
  CHECK(decode(gif(1, 5, {{0, 0, 1, 5, {0, 1, 2, 3, 0}, true}})).rgb == joined({red, {9, 8, 7}, blue, red, green}));
  CHECK(refusal(gif(2, 2, {})) == "picture: cannot be decoded: it contains no frame");
  CHECK(refusal(gif(60000, 60000, {whole})).find("is 60000 × 60000 pixels") != std::string::npos);
  CHECK(refusal(gif(2, 2, {{0, 0, 60000, 60000, {0, 1}}})).find("is 60000 × 60000 pixels") != std::string::npos);
}

TEST_CASE("the first bytes tell a picture's type") {
  const auto type = [](const std::string& file) { return media::type_of_picture(std::as_bytes(std::span(file))); };
  CHECK(type(png(sample(2, 2))) == "image/png");
  CHECK(type(jpeg(sample(2, 2))) == "image/jpeg");
  CHECK(type(webp(sample(2, 2))) == "image/webp");
  CHECK(type(gif(1, 1, {{0, 0, 1, 1, {0}}})) == "image/gif");
  CHECK(type("BM and more") == "");
  CHECK(type("") == "");
  const tests::TemporaryFolder folder;
  CHECK(media::is_picture_file(folder.write("a", ppm(sample(2, 2)))));
  CHECK_FALSE(media::is_picture_file(folder.write("b.png", "text")));
  CHECK_FALSE(media::is_picture_file(folder.write("c", "")));
  CHECK_FALSE(media::is_picture_file(folder.path()));
  CHECK_FALSE(media::is_picture_file("/dev/zero"));
}

TEST_CASE("pictures are turned as EXIF says") {
  // The result of each orientation for A B / C D / E F.
  const char* shown[] = {"ABCDEF", "BADCFE", "FEDCBA", "EFCDAB", "ACEBDF", "ECAFDB", "FDBECA", "BDFACE"};
  Picture picture(2, 3);
  for (int i = 0; i < 18; ++i) picture.rgb[i] = static_cast<uint8_t>('A' + i / 3);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    const Picture turned = decode(png(picture, exif(orientation)));
    CHECK(turned.width == (orientation < 5 ? 2 : 3));
    std::string letters;
    for (size_t i = 0; i < turned.rgb.size(); i += 3) letters += static_cast<char>(turned.rgb[i]);
    CHECK(letters == shown[orientation - 1]);
  }
  CHECK(decode(jpeg(sample(40, 8), false, exif(6))).width == 8);
  CHECK(decode(jpeg(sample(40, 8), false, exif(77))).width == 40);
}

TEST_CASE("a picture beyond a limit is refused before it is decoded") {
  const auto has = [](const std::string& line, const char* part) { return line.find(part) != line.npos; };
  const media::PictureLimits few = {.pixels = 100};
  for (const std::string& file : {ppm(sample(20, 20)), png(sample(20, 20)), jpeg(sample(20, 20)), webp(sample(20, 20))})
    CHECK(has(refusal(file, few), "is 20 × 20 pixels, expected at most 100"));
  CHECK(has(refusal(ppm(sample(20, 20)), {.bytes = 10}), "bytes, expected at most 10"));
  CHECK(has(refusal("P6 60000 60000 255\n"), "is 60000 × 60000 pixels"));
  CHECK(has(refusal("P6 99999999999999999999 9 255\n"), "pixels"));
  std::string bomb = png(sample(1, 1));
  for (const int at : {18, 19, 22, 23}) bomb[at] = '\x60'; // before their checksum
  CHECK(refusal(bomb).starts_with("picture: "));
}

TEST_CASE("what is no whole picture is one line of error") {
  for (const std::string& file :
       {ppm(sample(30, 30)), png(sample(30, 30)), jpeg(sample(30, 30)), jpeg(sample(30, 30), true),
        webp(sample(30, 30)), gif(9, 9, {{0, 0, 9, 9, std::string(81, '\1')}})})
    for (size_t size = 0; size < file.size(); size += size < 64 ? 1 : 37) {
      if ((file.starts_with("\xff\xd8") || file.starts_with("GIF")) && size + 2 >= file.size()) continue;
      const std::string line = refusal(file.substr(0, size));
      CAPTURE(size);
      CHECK(line.starts_with("picture: "));
      CHECK(line.find('\n') == line.npos);
    }
  CHECK(refusal("BM and more") == "picture: is not a supported image: expected JPEG, PNG, WebP, GIF, BMP or PPM");
  CHECK(refusal("P6 0 4 255\n") == "picture: has no pixels");
  CHECK(refusal("P6 four 4 255\n").find("a number is missing") != std::string::npos);
}

TEST_CASE("a picture's file is read, and one that is missing or too large is named") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.write("a.ppm", ppm(sample(5, 4)));
  CHECK(media::read_picture(path) == sample(5, 4));
  CHECK_THROWS_AS(media::read_picture(folder / "b.ppm"), core::Error);
  CHECK_THROWS_WITH_AS(media::read_picture(path, {.bytes = 9}), doctest::Contains("expected at most 9"), core::Error);
  // Endless files are not read to their end.
  CHECK_THROWS_WITH_AS(media::read_picture("/dev/zero"), doctest::Contains("/dev/zero: has more than"), core::Error);
}
