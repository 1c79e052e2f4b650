// Sounds decode within limits or give an Error.
#include "core/error.h"
#include "media/sound/sound.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr ridge::media::SoundLimits kLimits = {.bytes = 1 << 16, .seconds = 100};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  if (ridge::media::type_of_sound(bytes) != "audio/wav") return 0; // libsndfile is not tested here
  try {
    const ridge::media::Sound sound = ridge::media::decode_sound(bytes, "fuzz", kLimits);
    if (sound.rate < 1 || sound.samples.empty() || sound.samples.size() > size || sound.seconds() >= 100) std::abort();
  } catch (const ridge::core::Error& error) {
    const std::string_view line = error.what();
    if (!line.starts_with("fuzz: ") || line.find('\n') != line.npos) std::abort();
  }
  return 0;
}
