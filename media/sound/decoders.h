// Decoders per library. They throw Error without the sound's name, which decode_sound() prepends.
#pragma once

#include "media/sound/sound.h"

namespace ridge::media {

Sound decode_wav(std::span<const std::byte> bytes, const SoundLimits& limits);
void need_sndfile(); // throws Error if libsndfile is missing
Sound decode_by_sndfile(std::span<const std::byte> bytes, const SoundLimits& limits);

// Throws Error for no samples, an invalid rate, or above the limit.
void check_length(int64_t rate, int64_t channels, int64_t frames, const SoundLimits& limits);

} // namespace ridge::media
