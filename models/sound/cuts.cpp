#include "models/sound/cuts.h"

#include "media/sound/spectrum.h"
#include "models/vision/hparams.h"

#include <algorithm>

namespace ridge::models::sound {

std::vector<Part> wrapped(const std::string& before, std::vector<Frames> pieces, const std::string& behind) {
  std::vector<Part> parts;
  if (!before.empty()) parts.push_back({.text = before});
  for (Frames& piece : pieces) parts.push_back({.frames = std::move(piece)});
  if (!behind.empty()) parts.push_back({.text = behind});
  return parts;
}

int64_t bands_of(const vision::Hparams& h) {
  constexpr int64_t kMaxBands = 1024;
  return h.count("num_mel_bins", kMaxBands);
}

Frames whisper_spectrum(std::span<const float> samples, int64_t bands, int64_t frames, bool mirrors_end) {
  const media::SpectrumSpec spec = {.bands = bands};
  // pads short samples with silence
  const int64_t half = spec.transform / 2, count = std::max(std::ssize(samples), half + 1);
  std::vector<float> padded(half + count + (mirrors_end ? half : 0));
  std::ranges::copy(samples, padded.begin() + half);
  for (int64_t i = 1; i <= half; ++i) {
    padded[half - i] = padded[half + i];
    if (mirrors_end) padded[half + count - 1 + i] = padded[half + count - 1 - i];
  }
  const std::vector<double> window = media::hann_window(spec.transform, spec.transform, 0, true);
  Frames made = {frames, bands, media::log_spectrum(padded, frames, window, spec)};
  constexpr float kRange = 8, kShift = 4, kScale = 4; // kRange: powers of ten below the maximum
  const float least = std::ranges::max(made.values) - kRange;
  for (float& value : made.values) value = (std::max(value, least) + kShift) / kScale;
  return made;
}

std::vector<Frames> whisper_pieces(const vision::Hparams& h, std::span<const float> samples) {
  constexpr int64_t kPiece = 30 * kRate;
  const int64_t count = (std::ssize(samples) + kPiece - 1) / kPiece;
  const Frames all = whisper_spectrum(samples, bands_of(h), count * kWhisperFrames, false);
  std::vector<Frames> pieces;
  for (int64_t i = 0; i < count; ++i) pieces.push_back(part_of(all, i * kWhisperFrames, kWhisperFrames));
  return pieces;
}

Frames part_of(const Frames& all, int64_t first, int64_t count) {
  Frames part = {count, all.width, std::vector<float>(count * all.width)};
  const int64_t there = std::min(count, all.count - first);
  std::copy_n(all.values.begin() + first * all.width, there * all.width, part.values.begin());
  return part;
}

std::vector<std::span<const float>> in_pieces(std::span<const float> samples, int64_t seconds) {
  std::vector<std::span<const float>> pieces;
  for (const size_t most = seconds * kRate; !samples.empty(); samples = samples.subspan(pieces.back().size()))
    pieces.push_back(samples.first(std::min(most, samples.size())));
  return pieces;
}

} // namespace ridge::models::sound
