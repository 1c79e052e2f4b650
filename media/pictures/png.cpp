#include "core/error.h"
#include "media/pictures/formats.h"

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <memory>

#include <png.h>

namespace ridge::media {
namespace {

// Error callbacks use longjmp: no object with a destructor may exist between setjmp and the jump.
struct Reader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> rest;
  char message[160] = {};

  explicit Reader(std::span<const std::byte> bytes) : rest(bytes) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, leave, [](png_structp, png_const_charp) {});
    if (png) info = png_create_info_struct(png);
    if (!info) {
      png_destroy_read_struct(&png, nullptr, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png, this, read);
  }
  Reader(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }

  static void leave(png_structp png, png_const_charp message) {
    auto* reader = static_cast<Reader*>(png_get_error_ptr(png));
    std::strncpy(reader->message, message, sizeof reader->message - 1);
    png_longjmp(png, 1);
  }
  static void read(png_structp png, png_bytep data, size_t count) {
    auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
    if (count > reader->rest.size()) png_error(png, "the file is truncated");
    std::memcpy(data, reader->rest.data(), count);
    reader->rest = reader->rest.subspan(count);
  }
  [[noreturn]] void fail() const { core::throw_error("cannot be decoded: {}", message); }

  void read_header(const PictureLimits& limits) {
    if (setjmp(png_jmpbuf(png))) fail();
    const auto most = static_cast<png_uint_32>(std::min<int64_t>(limits.pixels, PNG_UINT_31_MAX));
    png_set_user_limits(png, most, most);
    png_set_chunk_cache_max(png, 64);
    png_set_chunk_malloc_max(png, 8 << 20);
    png_read_info(png, info);
  }

  void decode(uint8_t* pixels, uint8_t** rows, size_t count, size_t stride) {
    if (setjmp(png_jmpbuf(png))) fail();
    png_set_scale_16(png);
    png_set_expand(png);
    png_set_gray_to_rgb(png);
    png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != stride) png_error(png, "unexpected row length");
    for (size_t y = 0; y < count; ++y) rows[y] = pixels + y * stride;
    png_read_image(png, rows);
    png_read_end(png, info);
  }

  int orientation() const {
    png_uint_32 count = 0;
    png_bytep exif = nullptr;
    if (!png_get_eXIf_1(png, info, &count, &exif)) return 1;
    return orientation_of(std::as_bytes(std::span(exif, count)));
  }
};

} // namespace

DecodedPicture decode_png(std::span<const std::byte> bytes, const PictureLimits& limits) {
  const auto reader = std::make_unique<Reader>(bytes);
  reader->read_header(limits);
  const int64_t width = png_get_image_width(reader->png, reader->info),
                height = png_get_image_height(reader->png, reader->info);
  check_size(width, height, limits);
  std::vector<uint8_t> rgba(width * height * 4);
  std::vector<uint8_t*> rows(height);
  reader->decode(rgba.data(), rows.data(), rows.size(), width * 4);
  return {over_white(rgba, width, height), reader->orientation()};
}

} // namespace ridge::media
