#include "media/sound/sound.h"

#include "core/files/read_file.h"
#include "core/strings/printable.h"
#include "media/sound/decoders.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>

namespace ridge::media {

using core::throw_error;

namespace {

constexpr size_t kSoundStart = 16; // enough to detect the format

struct SoundFormat {
  std::string_view start;
  size_t then_at; // offset of `then`
  std::string_view then;
  std::string_view type, name;
  Sound (*decode)(std::span<const std::byte>, const SoundLimits&); // null: unsupported
};

constexpr std::array kSoundFormats = {
    SoundFormat{"RIFF", 8, "WAVE", "audio/wav", "WAV", decode_wav},
    SoundFormat{"fLaC", 0, "", "audio/flac", "FLAC", decode_by_sndfile},
    SoundFormat{"OggS", 0, "", "audio/ogg", "Ogg", decode_by_sndfile},
    SoundFormat{"ID3", 0, "", "audio/mpeg", "MP3", decode_by_sndfile},
    SoundFormat{"\xff\xfb", 0, "", "audio/mpeg", "MP3", decode_by_sndfile},
    SoundFormat{"\xff\xf3", 0, "", "audio/mpeg", "MP3", decode_by_sndfile},
    SoundFormat{"\xff\xf2", 0, "", "audio/mpeg", "MP3", decode_by_sndfile},
    SoundFormat{"\xff\xfa", 0, "", "audio/mpeg", "MP3", decode_by_sndfile},
    SoundFormat{"FORM", 8, "AIF", "audio/aiff", "AIFF", decode_by_sndfile},
    SoundFormat{"", 4, "ftyp", "audio/mp4", "MPEG-4 (m4a)", nullptr},
    SoundFormat{"\x1a\x45\xdf\xa3", 0, "", "audio/webm", "WebM or Matroska", nullptr},
    SoundFormat{"\xff\xf1", 0, "", "audio/aac", "AAC", nullptr},
};

const SoundFormat* sound_format_of(std::span<const std::byte> bytes) {
  const auto stands_at = [&](size_t at, std::string_view text) {
    return text.empty() ||
           (bytes.size() >= at + text.size() && std::memcmp(bytes.data() + at, text.data(), text.size()) == 0);
  };
  const auto found = std::ranges::find_if(kSoundFormats, [&](const SoundFormat& format) {
    return stands_at(0, format.start) && stands_at(format.then_at, format.then);
  });
  return found == kSoundFormats.end() ? nullptr : &*found;
}

} // namespace

void check_length(int64_t rate, int64_t channels, int64_t frames, const SoundLimits& limits) {
  constexpr int64_t kMaxRate = 768'000, kMaxChannels = 64;
  if (rate < 1 || rate > kMaxRate) throw_error("has a sample rate of {} Hz, expected 1 to {}", rate, kMaxRate);
  if (channels < 1 || channels > kMaxChannels) throw_error("has {} channels, expected 1 to {}", channels, kMaxChannels);
  if (frames < 1) throw_error("has no samples");
  if (frames / rate >= limits.seconds)
    throw_error("is {} seconds long, expected less than {}: split it", frames / rate, limits.seconds);
}

Sound decode_sound(std::span<const std::byte> bytes, const std::string& name, const SoundLimits& limits) {
  try {
    if (std::ssize(bytes) > limits.bytes)
      throw_error("has {} bytes, expected at most {}: split it", bytes.size(), limits.bytes);
    const SoundFormat* format = sound_format_of(bytes);
    if (!format) throw_error("is not a supported audio file: expected WAV, FLAC, MP3 or Ogg");
    if (!format->decode)
      throw_error("is {}, which is not supported: convert it to WAV, FLAC, MP3 or Ogg", format->name);
    Sound sound = format->decode(bytes, limits);
    constexpr float kMax = 1e6f; // nominal: 1
    if (!std::ranges::all_of(sound.samples, [](float sample) { return std::abs(sample) <= kMax; }))
      throw_error("has samples that are not finite or far above 1");
    return sound;
  } catch (const std::bad_alloc&) {
    throw SoundError(fmt::format("{}: not enough memory for the audio", core::printable(name)));
  } catch (const core::Error& error) {
    throw SoundError(fmt::format("{}: {}", core::printable(name), error.what()));
  }
}

std::string_view type_of_sound(std::span<const std::byte> bytes) {
  const SoundFormat* format = sound_format_of(bytes);
  return format ? format->type : "";
}

bool is_sound_file(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) return false; // a pipe would block
  std::array<char, kSoundStart> start{};
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), start.size());
  return sound_format_of(std::as_bytes(std::span(start).first(file.gcount())));
}

std::string read_sound_file(const std::string& path, const SoundLimits& limits) {
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(path, failed);
  if (!failed && bytes > static_cast<uintmax_t>(limits.bytes))
    throw_error("{}: has {} bytes, expected at most {} for audio: split it", core::printable(path), bytes,
                limits.bytes);
  return core::read_text_file(path, limits.bytes); // the file may have grown
}

Sound read_sound(const std::string& path, const SoundLimits& limits) {
  const std::string file = read_sound_file(path, limits);
  return decode_sound(std::as_bytes(std::span(file)), path, limits);
}

} // namespace ridge::media
