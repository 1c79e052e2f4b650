// By giflib: the first frame on the canvas.
#include "core/error.h"
#include "media/pictures/formats.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <gif_lib.h>

namespace ridge::media {
namespace {

struct Closed {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

int take_bytes(GifFileType* gif, GifByteType* to, int count) {
  auto& rest = *static_cast<std::span<const std::byte>*>(gif->UserData);
  const size_t taken = std::min<size_t>(std::max(count, 0), rest.size());
  std::memcpy(to, rest.data(), taken);
  rest = rest.subspan(taken);
  return static_cast<int>(taken);
}

[[noreturn]] void fail(int code) {
  const char* reason = GifErrorString(code);
  const bool ends = code == D_GIF_ERR_READ_FAILED || code == D_GIF_ERR_EOF_TOO_SOON;
  core::throw_error("cannot be decoded: {}", ends ? "the file is truncated" : reason ? reason : "the data is corrupt");
}

// Returns the transparent colour, or -1.
int read_extension(GifFileType* gif) {
  int code = 0, transparent = -1;
  GifByteType* block = nullptr; // block[0] is the length
  if (DGifGetExtension(gif, &code, &block) == GIF_ERROR) fail(gif->Error);
  while (block) {
    GraphicsControlBlock control;
    if (code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
      transparent = control.TransparentColor;
    if (DGifGetExtensionNext(gif, &block) == GIF_ERROR) fail(gif->Error);
  }
  return transparent;
}

std::vector<int64_t> order_of_lines(int64_t count, bool interlaced) {
  constexpr int kFirst[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
  std::vector<int64_t> order;
  for (int round = 0; interlaced && round < 4; ++round)
    for (int64_t y = kFirst[round]; y < count; y += kStep[round]) order.push_back(y);
  for (int64_t y = 0; !interlaced && y < count; ++y) order.push_back(y);
  return order;
}

// Uncovered canvas is transparent; frames are clipped.
Picture read_frame(GifFileType* gif, int transparent, const PictureLimits& limits) {
  if (DGifGetImageDesc(gif) == GIF_ERROR) fail(gif->Error);
  const GifImageDesc& frame = gif->Image;
  check_size(frame.Width, frame.Height, limits);
  const ColorMapObject* colors = frame.ColorMap ? frame.ColorMap : gif->SColorMap;
  if (!colors) core::throw_error("cannot be decoded: it has no colour table");
  const int64_t width = gif->SWidth, height = gif->SHeight;
  std::vector<uint8_t> rgba(width * height * 4);
  std::vector<GifPixelType> line(frame.Width);
  for (const int64_t row : order_of_lines(frame.Height, frame.Interlace)) {
    if (DGifGetLine(gif, line.data(), frame.Width) == GIF_ERROR) fail(gif->Error);
    const int64_t y = frame.Top + row;
    for (int64_t x = frame.Left; y < height && x < std::min<int64_t>(width, frame.Left + frame.Width); ++x) {
      const int index = line[x - frame.Left];
      if (index == transparent) continue;
      if (index >= colors->ColorCount) core::throw_error("cannot be decoded: it uses a colour outside its palette");
      const GifColorType& color = colors->Colors[index];
      const uint8_t pixel[] = {color.Red, color.Green, color.Blue, 255};
      std::copy_n(pixel, 4, &rgba[4 * (y * width + x)]);
    }
  }
  return over_white(rgba, width, height);
}

} // namespace

DecodedPicture decode_gif(std::span<const std::byte> bytes, const PictureLimits& limits) {
  int problem = 0;
  const std::unique_ptr<GifFileType, Closed> gif(DGifOpen(&bytes, take_bytes, &problem));
  if (!gif) fail(problem);
  check_size(gif->SWidth, gif->SHeight, limits);
  int transparent = -1;
  while (true) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif.get(), &record) == GIF_ERROR) fail(gif->Error);
    if (record == IMAGE_DESC_RECORD_TYPE) return {read_frame(gif.get(), transparent, limits)};
    if (record == TERMINATE_RECORD_TYPE) core::throw_error("cannot be decoded: it contains no frame");
    if (record != EXTENSION_RECORD_TYPE) continue;
    const int found = read_extension(gif.get());
    if (found >= 0) transparent = found;
  }
}

} // namespace ridge::media
