#include "core/error.h"
#include "media/pictures/formats.h"

#include <memory>

#include <webp/decode.h>
#include <webp/demux.h>

namespace ridge::media {
namespace {

struct Freed {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

int stored_orientation(const WebPData& data) {
  const std::unique_ptr<WebPDemuxer, Freed> demuxer(WebPDemux(&data));
  if (!demuxer) return 1;
  WebPChunkIterator chunk;
  if (!WebPDemuxGetChunk(demuxer.get(), "EXIF", 1, &chunk)) return 1;
  const int orientation = orientation_of(std::as_bytes(std::span(chunk.chunk.bytes, chunk.chunk.size)));
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

const char* name_of(VP8StatusCode status) {
  switch (status) {
  case VP8_STATUS_NOT_ENOUGH_DATA: return "the file is truncated";
  case VP8_STATUS_UNSUPPORTED_FEATURE: return "it uses an unsupported feature";
  case VP8_STATUS_OUT_OF_MEMORY: return "not enough memory";
  default: return "the data is corrupt";
  }
}

} // namespace

DecodedPicture decode_webp(std::span<const std::byte> bytes, const PictureLimits& limits) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) throw std::bad_alloc();
  if (const VP8StatusCode status = WebPGetFeatures(data, bytes.size(), &config.input); status != VP8_STATUS_OK)
    core::throw_error("cannot be decoded: {}", name_of(status));
  if (config.input.has_animation) core::throw_error("is animated, expected a single image: save one frame as an image");
  const int64_t width = config.input.width, height = config.input.height;
  check_size(width, height, limits);
  std::vector<uint8_t> rgba(width * height * 4);
  config.output.colorspace = MODE_RGBA;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {rgba.data(), static_cast<int>(width * 4), rgba.size()};
  if (const VP8StatusCode status = WebPDecode(data, bytes.size(), &config); status != VP8_STATUS_OK)
    core::throw_error("cannot be decoded: {}", name_of(status));
  return {over_white(rgba, width, height), stored_orientation({data, bytes.size()})};
}

} // namespace ridge::media
