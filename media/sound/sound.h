#pragma once

#include "media/pictures/picture.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::media {

struct Sound {
  int64_t rate = 0;                // samples per second
  std::vector<float> samples = {}; // -1 to 1; mean of channels

  double seconds() const { return rate > 0 ? static_cast<double>(samples.size()) / static_cast<double>(rate) : 0; }
};

// Checked against the header before decoding.
struct SoundLimits {
  int64_t bytes = int64_t{256} << 20; // file size
  int64_t seconds = 3600;
};

struct SoundError : MediaError {
  using MediaError::MediaError;
};

// WAV (integers or floats); with libsndfile FLAC, MP3, Ogg (Vorbis, Opus) and AIFF. Throws SoundError, beginning with
// `name`, for other formats, no samples, exceeded limits and truncated data.
Sound decode_sound(std::span<const std::byte> bytes, const std::string& name, const SoundLimits& limits = {});

// "audio/wav"; empty: none.
std::string_view type_of_sound(std::span<const std::byte> bytes);
bool is_sound_file(const std::string& path); // false also if unreadable

// Throws Error if unreadable or above the limit.
std::string read_sound_file(const std::string& path, const SoundLimits& limits = {});
Sound read_sound(const std::string& path, const SoundLimits& limits = {});

// Up to 0.9 of half the lower rate nothing changes, and what it cannot hold becomes 90 dB less.
std::vector<float> resampled(const Sound& sound, int64_t rate);

// 16-bit WAV file.
std::string wav_of(const Sound& sound);

} // namespace ridge::media
