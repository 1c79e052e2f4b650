// Decoders throw Error; decode_sound() prepends the sound's name.
#pragma once

#include "media/sound/sound.h"

namespace ridge::media {

Sound decode_wav(std::span<const std::byte> bytes, const SoundLimits& limits);
void need_sndfile(); // throws Error if missing
Sound decode_by_sndfile(std::span<const std::byte> bytes, const SoundLimits& limits);

// Throws Error if empty, of an invalid rate, or above the limit.
void check_length(int64_t rate, int64_t channels, int64_t frames, const SoundLimits& limits);

} // namespace ridge::media
