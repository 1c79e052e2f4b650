// All formats must decode; resampling and spectra must match their definitions.
#include "core/error.h"
#include "media/medium.h"
#include "media/sound/spectrum.h"
#include "support/seed.h"
#include "support/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <complex>
#include <numbers>
#include <random>
#include <string>

using namespace ridge;
using media::Sound;

namespace {

std::string bytes_of(uint64_t number, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(number >> 8 * i & 0xff);
  return bytes;
}

struct WavKind {
  int code = 1, bits = 16, channels = 1;
  int64_t rate = 16000;
  bool extensible = false;
};

std::string riff_chunk(const std::string& name, const std::string& data) {
  return name + bytes_of(data.size(), 4) + data + std::string(data.size() % 2, '\0');
}

std::string wav_format(const WavKind& kind) {
  const int frame = kind.channels * kind.bits / 8;
  std::string data = bytes_of(kind.extensible ? 0xfffe : kind.code, 2) + bytes_of(kind.channels, 2) +
                     bytes_of(kind.rate, 4) + bytes_of(kind.rate * frame, 4) + bytes_of(frame, 2) +
                     bytes_of(kind.bits, 2);
  if (kind.extensible)
    data += bytes_of(22, 2) + bytes_of(kind.bits, 2) + bytes_of(0, 4) + bytes_of(kind.code, 2) + std::string(14, 'x');
  return riff_chunk("fmt ", data);
}

std::string riff(const std::string& chunks) { return "RIFF" + bytes_of(chunks.size() + 4, 4) + "WAVE" + chunks; }

std::string wav(const WavKind& kind, const std::string& data) {
  return riff(wav_format(kind) + riff_chunk("LIST", "odd") + riff_chunk("data", data));
}

Sound heard(const std::string& file, const media::SoundLimits& limits = {}) {
  return media::decode_sound(std::as_bytes(std::span(file)), "sound", limits);
}

std::string sound_refusal(const std::string& file, const media::SoundLimits& limits = {}) {
  try {
    heard(file, limits);
  } catch (const media::SoundError& error) {
    return error.what();
  }
  return "";
}

bool mentions(const std::string& line, const char* part) { return line.find(part) != line.npos; }

std::vector<float> tone(double hz, int64_t rate, int64_t count) {
  std::vector<float> samples(count);
  for (int64_t i = 0; i < count; ++i)
    samples[i] = static_cast<float>(
        0.5 * std::sin(2 * std::numbers::pi * hz * static_cast<double>(i) / static_cast<double>(rate)));
  return samples;
}

double loudness(std::span<const float> samples) {
  double sum = 0;
  for (const float sample : samples) sum += static_cast<double>(sample) * sample;
  return std::sqrt(sum / static_cast<double>(samples.size()));
}

} // namespace

TEST_CASE("WAV files of all kinds of samples are read") {
  CHECK(heard(wav({.bits = 8}, bytes_of(0xff'00, 2))).samples == std::vector<float>{-1, 1});
  const Sound whole = heard(wav({.bits = 16, .rate = 8000}, bytes_of(0x4000'8000, 4)));
  CHECK(whole.samples == std::vector<float>{-1, 0.5f});
  CHECK(whole.rate == 8000);
  CHECK(heard(wav({.bits = 24}, bytes_of(0x800000, 3) + bytes_of(0x400000, 3))).samples ==
        std::vector<float>{-1, 0.5f});
  CHECK(heard(wav({.bits = 32}, bytes_of(0x80000000, 4) + bytes_of(0x20000000, 4))).samples ==
        std::vector<float>{-1, 0.25f});
  CHECK(heard(wav({.code = 3, .bits = 32}, bytes_of(std::bit_cast<uint32_t>(0.3f), 4))).samples ==
        std::vector<float>{0.3f});
  CHECK(heard(wav({.code = 3, .bits = 64}, bytes_of(std::bit_cast<uint64_t>(0.25), 8))).samples ==
        std::vector<float>{0.25f});
  CHECK(heard(wav({.bits = 16, .extensible = true}, bytes_of(0x4000, 2))).samples == std::vector<float>{0.5f});
  CHECK(heard(wav({.bits = 16, .channels = 2}, bytes_of(0x2000'4000, 4))).samples == std::vector<float>{0.375f});
  const Sound written = {44100, {0, 0.5f, -1, 0.25f}};
  CHECK(heard(media::wav_of(written)).samples == written.samples);
  CHECK(heard(media::wav_of(written)).rate == 44100);
  // Unknown length, from a pipe.
  CHECK(heard(riff(wav_format({}) + "data" + bytes_of(0xffffffff, 4) + bytes_of(0x4000, 2))).samples.size() == 1);
}

TEST_CASE("sounds that are malformed or beyond a limit are one line of error") {
  const std::string file = wav({}, std::string(400, '\1'));
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string line = sound_refusal(file.substr(0, size));
    CAPTURE(size);
    CHECK(line.starts_with("sound: "));
    CHECK(line.find('\n') == line.npos);
  }
  CHECK(mentions(sound_refusal("text"), "is not a supported audio file: expected WAV, FLAC, MP3 or Ogg"));
  CHECK(mentions(sound_refusal(std::string(4, '\0') + "ftypM4A "),
                 "is MPEG-4 (m4a), which is not supported: convert it to WAV"));
  CHECK(mentions(sound_refusal("\x1a\x45\xdf\xa3 webm"), "is WebM or Matroska"));
  CHECK(mentions(sound_refusal(wav({.code = 6, .bits = 8}, "aa")), "is a WAV file of format 6 with 8 bits"));
  CHECK(mentions(sound_refusal(wav({.bits = 12}, "aa")), "of format 1 with 12 bits"));
  CHECK(mentions(sound_refusal(wav({.channels = 0}, "aa")), "0 channels"));
  CHECK(mentions(sound_refusal(wav({.rate = 0}, "aa")), "has a sample rate of 0 Hz"));
  CHECK(mentions(sound_refusal(wav({}, "")), "has no samples"));
  CHECK(mentions(sound_refusal(riff(riff_chunk("data", "aa"))), "has samples before its format chunk"));
  CHECK(mentions(sound_refusal(riff(wav_format({}))), "it has no samples"));
  CHECK(mentions(sound_refusal(wav({.code = 3, .bits = 32}, bytes_of(0x7fc00000, 4))),
                 "has samples that are not finite"));
  CHECK(mentions(sound_refusal(file, {.bytes = 9}), "bytes, expected at most 9"));
  CHECK(mentions(sound_refusal(wav({.rate = 100}, std::string(400, '\1')), {.seconds = 2}),
                 "is 2 seconds long, expected less than"));
}

TEST_CASE("the first bytes tell a sound from a picture") {
  const auto type = [](const std::string& file) { return media::type_of_medium(std::as_bytes(std::span(file))); };
  CHECK(type(wav({}, "aa")) == "audio/wav");
  CHECK(type("fLaC") == "audio/flac");
  CHECK(type("RIFF....WEBP") == "image/webp");
  CHECK(type("RIFF....AVI ") == "");
  CHECK(type("text") == "");
  const tests::TemporaryFolder folder;
  CHECK(media::is_sound_file(folder.write("a", wav({}, "aa"))));
  CHECK_FALSE(media::is_picture_file(folder.write("a.wav", wav({}, "aa"))));
  CHECK_FALSE(media::is_sound_file("/dev/zero"));
  const std::string path = folder.write("b.wav", wav({}, bytes_of(0x4000, 2)));
  CHECK(std::get<Sound>(media::read_medium(path)).samples == std::vector<float>{0.5f});
  CHECK_THROWS_WITH_AS(media::read_sound(path, {.bytes = 9}), doctest::Contains("expected at most 9"), core::Error);
  CHECK_THROWS_WITH_AS(media::decode_medium(std::as_bytes(std::span(path)), "x"), doctest::Contains("or audio file"),
                       core::Error);
}

TEST_CASE("what libsndfile reads of broken files is one line of error") {
  for (const char* start : {"fLaC", "OggS", "ID3", "\xff\xfb\x90", "FORM....AIFF"}) {
    const std::string line = sound_refusal(start + std::string(300, 'x'));
    CHECK(line.starts_with("sound: "));
    CHECK(line.find('\n') == line.npos);
  }
}

TEST_CASE("at another rate the tones that it can hold are what the formula says") {
  for (const int64_t from : {8000, 11025, 22050, 44100, 48000, 96000, 47999}) {
    CAPTURE(from);
    const double most = 0.45 * static_cast<double>(std::min<int64_t>(from, 16000));
    for (const double hz : {20.0, 300.0, most / 2, most}) {
      CAPTURE(hz);
      const std::vector<float> made = media::resampled({from, tone(hz, from, from)}, 16000);
      REQUIRE(made.size() == 16000);
      const std::vector<float> expected = tone(hz, 16000, 16000);
      float error = 0;
      for (size_t i = 4000; i < 12000; ++i) error = std::max(error, std::abs(made[i] - expected[i]));
      CHECK(error < 0.5e-4f); // -80 dB of the amplitude
    }
  }
}

TEST_CASE("what another rate cannot hold is 80 dB less") {
  for (const int64_t from : {22050, 44100, 48000, 96000})
    for (const double hz : {8000.0, 8500.0, 10000.0, 11000.0, 15000.0, 20000.0, 40000.0}) {
      if (hz > static_cast<double>(from) / 2) continue;
      CAPTURE(from);
      CAPTURE(hz);
      const std::vector<float> made = media::resampled({from, tone(hz, from, from)}, 16000);
      CHECK(loudness(std::span(made).subspan(4000, 8000)) < 0.5e-4 / std::numbers::sqrt2);
    }
}

TEST_CASE("sounds that have the rate, and a few samples, become as long as they should") {
  const Sound same = {16000, {0.1f, 0.2f}};
  CHECK(media::resampled(same, 16000) == same.samples);
  CHECK(media::resampled({1, {0.5f}}, 16000).size() == 16000);
  CHECK(media::resampled({48000, {0.5f}}, 16000).size() == 1);
  CHECK(media::resampled({767999, std::vector<float>(48)}, 16000).size() == 2);
}

TEST_CASE("a spectrum is what the definition says") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> between(-1, 1);
  for (const auto scale : {media::MelScale::slaney, media::MelScale::htk})
    for (const int64_t transform : {400, 512, 30}) {
      CAPTURE(transform);
      const bool of_magnitude = scale == media::MelScale::htk;
      const media::SpectrumSpec spec = {.bands = 20,
                                        .transform = transform,
                                        .scale = scale,
                                        .loudness = media::Loudness::ln_of_sum,
                                        .of_magnitude = of_magnitude};
      std::vector<float> samples(3 * transform);
      for (float& sample : samples) sample = between(random);
      const std::vector<double> window = media::hann_window(transform - 8, transform, 3, false);
      const int64_t frames = 5;
      const std::vector<float> made = media::log_spectrum(samples, frames, window, spec);
      const auto mel = [&](double hz) {
        if (scale == media::MelScale::htk) return 2595 * std::log10(1 + hz / 700);
        return hz < 1000 ? hz * 3 / 200 : 15 + std::log(hz / 1000) * 27 / std::log(6.4);
      };
      for (int64_t frame = 0; frame < frames; ++frame)
        for (int64_t band = 0; band < spec.bands; ++band) {
          double sum = 0;
          const double step = mel(8000) / 21, left = step * static_cast<double>(band);
          const auto hz_at = [&](double mels) { // by bisection
            double low = 0, high = 8000;
            for (int i = 0; i < 80; ++i) (mel((low + high) / 2) < mels ? low : high) = (low + high) / 2;
            return low;
          };
          const double from = hz_at(left), centre = hz_at(left + step), to = hz_at(left + 2 * step);
          for (int64_t k = 0; k <= transform / 2; ++k) {
            const double hz = 16000.0 * static_cast<double>(k) / static_cast<double>(transform);
            const double weight = std::max(0.0, std::min((hz - from) / (centre - from), (to - hz) / (to - centre)));
            std::complex<double> number = 0;
            for (int64_t i = 0; i < transform; ++i)
              if (frame * 160 + i < std::ssize(samples))
                number += window[i] * samples[frame * 160 + i] *
                          std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(i * k) /
                                              static_cast<double>(transform));
            sum += weight * (of_magnitude ? std::abs(number) : std::norm(number)) *
                   (scale == media::MelScale::slaney ? 2 / (to - from) : 1);
          }
          CHECK(made[frame * spec.bands + band] == doctest::Approx(std::log(sum + 0x1p-24)).epsilon(1e-4));
        }
    }
}
