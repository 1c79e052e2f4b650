// One decoder per library. Each throws Error without the sound's name, which decode_sound() puts before it.
#pragma once

#include "media/sound/sound.h"

namespace ridge::media {

Sound decode_wav(std::span<const std::byte> bytes, const SoundLimits& limits);
void need_sndfile(); // throws Error where libsndfile is missing
Sound decode_by_sndfile(std::span<const std::byte> bytes, const SoundLimits& limits);

// Throws Error for a sound without samples, of a rate that none has, or longer than the limit.
void check_length(int64_t rate, int64_t channels, int64_t frames, const SoundLimits& limits);

} // namespace ridge::media
