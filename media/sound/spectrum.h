// Log mel spectra.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::media {

enum class MelScale : uint8_t {
  slaney, // linear below 1 kHz; triangles have area 1
  htk,    // logarithmic; triangles have height 1
};

enum class Loudness : uint8_t {
  log10_of_least, // log10(max(x, least))
  ln_of_least,    // ln(max(x, least))
  ln_of_sum,      // ln(x + least)
};

struct SpectrumSpec {
  int64_t bands = 0;
  int64_t rate = 16000;
  int64_t transform = 400; // samples per transform
  int64_t hop = 160;       // samples between transforms
  MelScale scale = MelScale::slaney;
  Loudness loudness = Loudness::log10_of_least;
  double least = 0x1p-24;
  bool of_magnitude = false;           // bands sum magnitudes instead of squares
  std::span<const float> filters = {}; // [bands][transform / 2 + 1]; empty: triangles by `scale`
};

// At `first` of `transform`, zero elsewhere. Period `length` if periodic, else `length - 1`.
std::vector<double> hann_window(int64_t length, int64_t transform, int64_t first, bool periodic);

// [frames][bands]; frame i starts at sample i * hop, zero-padded.
std::vector<float> log_spectrum(std::span<const float> samples, int64_t frames, std::span<const double> window,
                                const SpectrumSpec& spec);

} // namespace ridge::media
