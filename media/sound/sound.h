// Sounds: decoded from the files that people have, as one channel of samples.
#pragma once

#include "media/picture.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::media {

struct Sound {
  int64_t rate = 0;                // samples a second
  std::vector<float> samples = {}; // -1 to 1; of several channels their mean

  double seconds() const { return rate > 0 ? static_cast<double>(samples.size()) / static_cast<double>(rate) : 0; }
};

// What a sound may be at most. Its header is checked before anything is decoded.
struct SoundLimits {
  int64_t bytes = int64_t{256} << 20; // of the file
  int64_t seconds = 3600;
};

// What is wrong with a sound, in a line that begins with its name.
struct SoundError : MediaError {
  using MediaError::MediaError;
};

// A WAV file of whole numbers or floats, or, where libsndfile is installed, FLAC, MP3, Ogg (Vorbis, Opus) and AIFF.
// `name` begins the SoundError that is thrown for what is no such sound, has no samples, is beyond a limit, or ends
// early.
Sound decode_sound(std::span<const std::byte> bytes, const std::string& name, const SoundLimits& limits = {});

// "audio/wav": what the first bytes say; empty: they are not those of a sound.
std::string_view type_of_sound(std::span<const std::byte> bytes);
bool is_sound_file(const std::string& path); // by its first bytes; false also where none can be read

// The bytes of a file at `path`. Throws Error where it cannot be read, or has more than a sound may have.
std::string read_sound_file(const std::string& path, const SoundLimits& limits = {});
// decode_sound() of them.
Sound read_sound(const std::string& path, const SoundLimits& limits = {});

// The samples at another rate: between two neighbours lies a line, and what the lower rate cannot hold is filtered out
// before (Butterworth of order 4), as other programs do it that models are run with.
std::vector<float> resampled(const Sound& sound, int64_t rate);

// A WAV file of 16 bits.
std::string wav_of(const Sound& sound);

} // namespace ridge::media
