#include "core/error.h"
#include "media/pictures/formats.h"

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>

#include <jpeglib.h>

#include <jerror.h>

namespace ridge::media {
namespace {

// Error callbacks use longjmp: no object with a destructor may exist between setjmp and the jump.
struct Errors {
  jpeg_error_mgr manager;
  jpeg_progress_mgr progress;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<Errors*>(jpeg->err);
  jpeg->err->format_message(jpeg, errors->message);
  std::longjmp(errors->back, 1);
}

// Truncation is an error; other warnings are ignored.
void warn(j_common_ptr jpeg, int level) {
  if (level < 0 && (jpeg->err->msg_code == JWRN_JPEG_EOF || jpeg->err->msg_code == JWRN_HIT_MARKER)) leave(jpeg);
}

// A small file may have thousands of scans.
void limit_scans(j_common_ptr jpeg) {
  constexpr int kMaxScans = 200;
  if (jpeg->is_decompressor && reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > kMaxScans) {
    jpeg->err->msg_code = JERR_BAD_PROGRESSION;
    leave(jpeg);
  }
}

struct Decompressor {
  jpeg_decompress_struct jpeg = {};
  Errors errors = {};
  Decompressor() {
    jpeg.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = leave;
    errors.manager.emit_message = warn;
    errors.progress.progress_monitor = limit_scans;
  }
  Decompressor(const Decompressor&) = delete;
  ~Decompressor() { jpeg_destroy_decompress(&jpeg); }

  [[noreturn]] void fail() const { core::throw_error("cannot be decoded: {}", errors.message); }

  void read_header(std::span<const std::byte> bytes) {
    if (setjmp(errors.back)) fail();
    jpeg_create_decompress(&jpeg);
    jpeg.progress = &errors.progress;
    jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_save_markers(&jpeg, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&jpeg, TRUE);
    const bool four = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
    jpeg.out_color_space = four ? JCS_CMYK : JCS_RGB;
    jpeg_calc_output_dimensions(&jpeg);
  }

  void decode(uint8_t* rows) {
    if (setjmp(errors.back)) fail();
    jpeg_start_decompress(&jpeg);
    const size_t stride = static_cast<size_t>(jpeg.output_width) * jpeg.output_components;
    while (jpeg.output_scanline < jpeg.output_height) {
      JSAMPROW row = rows + jpeg.output_scanline * stride;
      jpeg_read_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_decompress(&jpeg);
  }

  int orientation() const {
    constexpr char kExif[] = {'E', 'x', 'i', 'f', 0, 0};
    for (jpeg_saved_marker_ptr marker = jpeg.marker_list; marker; marker = marker->next)
      if (marker->data_length > sizeof kExif && std::memcmp(marker->data, kExif, sizeof kExif) == 0)
        return orientation_of(std::as_bytes(std::span(marker->data, marker->data_length)).subspan(sizeof kExif));
    return 1;
  }
};

// Adobe writes CMYK inverted.
void from_cmyk(const std::vector<uint8_t>& cmyk, bool inverted, Picture& picture) {
  for (size_t i = 0; i < cmyk.size() / 4; ++i)
    for (int c = 0; c < 3; ++c) {
      const int ink = inverted ? cmyk[4 * i + c] : 255 - cmyk[4 * i + c];
      const int black = inverted ? cmyk[4 * i + 3] : 255 - cmyk[4 * i + 3];
      picture.rgb[3 * i + c] = static_cast<uint8_t>((ink * black + 127) / 255);
    }
}

} // namespace

DecodedPicture decode_jpeg(std::span<const std::byte> bytes, const PictureLimits& limits) {
  const auto decompressor = std::make_unique<Decompressor>();
  decompressor->read_header(bytes);
  const jpeg_decompress_struct& jpeg = decompressor->jpeg;
  check_size(jpeg.output_width, jpeg.output_height, limits);
  DecodedPicture decoded{Picture(jpeg.output_width, jpeg.output_height), decompressor->orientation()};
  if (jpeg.out_color_space == JCS_RGB) {
    decompressor->decode(decoded.picture.rgb.data());
  } else {
    std::vector<uint8_t> cmyk(decoded.picture.rgb.size() / 3 * 4);
    decompressor->decode(cmyk.data());
    from_cmyk(cmyk, jpeg.saw_Adobe_marker, decoded.picture);
  }
  return decoded;
}

} // namespace ridge::media
