// Chunks of name, length, data.
#include "media/sound/decoders.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

namespace ridge::media {

using core::throw_error;

namespace {

constexpr size_t kRiffHeader = 12, kChunkHeader = 8;

uint64_t little_number_at(std::span<const std::byte> bytes, size_t at, size_t count) {
  uint64_t number = 0;
  for (size_t i = 0; i < count; ++i) number |= static_cast<uint64_t>(bytes[at + i]) << 8 * i;
  return number;
}

struct WavFormat {
  uint64_t code, channels, rate, frame_bytes, bits;
  uint64_t sample_bytes() const { return bits / 8; }
};

WavFormat read_format(std::span<const std::byte> chunk) {
  constexpr size_t kMin = 16, kExtensible = 40, kSubFormat = 24;
  constexpr uint64_t kWhole = 1, kFloat = 3, kExtended = 0xfffe;
  if (chunk.size() < kMin) throw_error("has a format chunk of {} bytes, expected at least {}", chunk.size(), kMin);
  WavFormat format = {little_number_at(chunk, 0, 2), little_number_at(chunk, 2, 2), little_number_at(chunk, 4, 4),
                      little_number_at(chunk, 12, 2), little_number_at(chunk, 14, 2)};
  if (format.code == kExtended && chunk.size() >= kExtensible) format.code = little_number_at(chunk, kSubFormat, 2);
  const bool is_whole =
      format.code == kWhole && (format.bits == 8 || format.bits == 16 || format.bits == 24 || format.bits == 32);
  const bool is_float = format.code == kFloat && (format.bits == 32 || format.bits == 64);
  if (!is_whole && !is_float)
    throw_error("is a WAV file of format {} with {} bits, expected integers of 8, 16, 24 or 32 bits, or floats",
                format.code, format.bits);
  if (format.channels == 0 || format.frame_bytes != format.channels * format.sample_bytes())
    throw_error("has an inconsistent header: {} channels of {} bits in {} bytes", format.channels, format.bits,
                format.frame_bytes);
  return format;
}

float sample_at(std::span<const std::byte> bytes, size_t at, const WavFormat& format, bool is_float) {
  const uint64_t number = little_number_at(bytes, at, format.sample_bytes());
  if (is_float && format.bits == 32) return std::bit_cast<float>(static_cast<uint32_t>(number));
  if (is_float) return static_cast<float>(std::bit_cast<double>(number));
  if (format.bits == 8) return static_cast<float>(number) * (2.0f / 255) - 1;
  const int unused = static_cast<int>(64 - format.bits);
  const int64_t whole = static_cast<int64_t>(number << unused) >> unused;
  return static_cast<float>(static_cast<double>(whole) / static_cast<double>(int64_t{1} << (format.bits - 1)));
}

Sound read_samples(std::span<const std::byte> data, const WavFormat& format, const SoundLimits& limits) {
  const auto frames = static_cast<int64_t>(data.size() / format.frame_bytes);
  check_length(static_cast<int64_t>(format.rate), static_cast<int64_t>(format.channels), frames, limits);
  const bool is_float = format.code == 3;
  Sound sound = {static_cast<int64_t>(format.rate), std::vector<float>(frames)};
  size_t at = 0;
  for (float& sample : sound.samples) {
    float sum = 0;
    for (uint64_t c = 0; c < format.channels; ++c, at += format.sample_bytes())
      sum += sample_at(data, at, format, is_float);
    sample = sum / static_cast<float>(format.channels);
  }
  return sound;
}

} // namespace

Sound decode_wav(std::span<const std::byte> bytes, const SoundLimits& limits) {
  constexpr uint64_t kUnknown = 0xffffffff; // length in files written to a pipe
  std::optional<WavFormat> format;
  for (size_t at = kRiffHeader; bytes.size() >= at + kChunkHeader;) {
    const std::string_view name(reinterpret_cast<const char*>(bytes.data()) + at, 4);
    const uint64_t length = little_number_at(bytes, at + 4, 4);
    const std::span<const std::byte> rest = bytes.subspan(at + kChunkHeader);
    const bool is_data = name == "data", is_open = is_data && (length == kUnknown || length == 0);
    if (!is_open && length > rest.size()) throw_error("is truncated: {} bytes of {} are present", rest.size(), length);
    const std::span<const std::byte> chunk = is_open ? rest : rest.first(length);
    if (name == "fmt ") format = read_format(chunk);
    if (is_data && !format) throw_error("has samples before its format chunk");
    if (is_data) return read_samples(chunk, *format, limits);
    at += kChunkHeader + length + length % 2;
  }
  throw_error("is truncated: it has no samples");
}

std::string wav_of(const Sound& sound) {
  const auto bytes = static_cast<uint32_t>(sound.samples.size() * 2);
  std::string file;
  const auto put = [&](uint64_t number, int count) {
    for (int i = 0; i < count; ++i) file += static_cast<char>(number >> 8 * i & 0xff);
  };
  constexpr int kHead = 36;
  file += "RIFF";
  put(kHead + bytes, 4);
  file += "WAVEfmt ";
  put(16, 4);
  for (const int field : {1, 1}) put(static_cast<uint64_t>(field), 2); // integers, one channel
  put(static_cast<uint64_t>(sound.rate), 4);
  put(static_cast<uint64_t>(sound.rate) * 2, 4);
  put(2, 2);
  put(16, 2);
  file += "data";
  put(bytes, 4);
  for (const float sample : sound.samples)
    put(static_cast<uint64_t>(static_cast<int64_t>(std::clamp(sample * 32768.0f, -32768.0f, 32767.0f))), 2);
  return file;
}

} // namespace ridge::media
