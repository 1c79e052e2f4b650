// Spectra of sounds: how loud each band of frequencies is over time, as encoders were trained with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::media {

enum class MelScale : uint8_t {
  slaney, // linear below 1 kHz; a band's triangle has the area 1
  htk,    // logarithmic; a triangle has the height 1
};

// The logarithm of what a band has.
enum class Loudness : uint8_t {
  log10_of_least, // log10(max(x, least))
  ln_of_least,    // ln(max(x, least))
  ln_of_sum,      // ln(x + least)
};

struct SpectrumSpec {
  int64_t bands;
  int64_t rate = 16000;
  int64_t transform = 400; // samples of a Fourier transform
  int64_t hop = 160;       // samples from one to the next
  MelScale scale = MelScale::slaney;
  Loudness loudness = Loudness::log10_of_least;
  double least = 0x1p-24;
  bool of_magnitude = false; // a band adds up magnitudes, else their squares
};

// Hann's window of `length` samples at `first` of `transform`, zero around it. Periodic: it would end with the sample
// behind it.
std::vector<double> hann_window(int64_t length, int64_t transform, int64_t first, bool periodic);

// [frames][bands]: frame i is that of the samples from i * hop on, which are zero behind the last one.
std::vector<float> log_spectrum(std::span<const float> samples, int64_t frames, std::span<const double> window,
                                const SpectrumSpec& spec);

} // namespace ridge::media
