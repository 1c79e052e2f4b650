// Pictures decode within limits or give an Error.
#include "core/error.h"
#include "media/pictures/picture.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr ridge::media::PictureLimits kLimits = {.bytes = 1 << 16, .pixels = 1 << 16};
  try {
    const ridge::media::Picture picture =
        ridge::media::decode_picture(std::as_bytes(std::span(data, size)), "fuzz", kLimits);
    if (picture.width < 1 || picture.height < 1 || picture.width * picture.height > kLimits.pixels ||
        static_cast<int64_t>(picture.rgb.size()) != picture.width * picture.height * 3)
      std::abort();
  } catch (const ridge::core::Error& error) {
    const std::string_view line = error.what();
    if (!line.starts_with("fuzz: ") || line.find('\n') != line.npos) std::abort();
  }
  return 0;
}
