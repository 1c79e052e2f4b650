#include "media/sound/spectrum.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <thread>

namespace ridge::media {
namespace {

struct Complex {
  double re = 0, im = 0;

  Complex operator+(Complex b) const { return {re + b.re, im + b.im}; }
  Complex operator-(Complex b) const { return {re - b.re, im - b.im}; }
  Complex operator*(Complex b) const { return {re * b.re - im * b.im, re * b.im + im * b.re}; }
};

// Mixed radix: combines transforms of every p-th number, p the smallest factor.
class Fourier {
 public:
  explicit Fourier(int64_t size) : size_(size), turns_(size), room_(2 * size) {
    for (int64_t i = 0; i < size; ++i) {
      const double angle = -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(size);
      turns_[i] = {std::cos(angle), std::sin(angle)};
    }
  }
  void operator()(const Complex* x, Complex* out) { transform(x, 1, out, size_, room_.data()); }

 private:
  void transform(const Complex* x, int64_t stride, Complex* out, int64_t count, Complex* room) const {
    if (count == 1) {
      out[0] = x[0];
      return;
    }
    int64_t factor = 2;
    while (count % factor != 0) ++factor;
    const int64_t part = count / factor, step = size_ / count;
    for (int64_t j = 0; j < factor; ++j)
      transform(x + j * stride, stride * factor, room + j * part, part, room + count);
    if (factor == 2) {
      for (int64_t k = 0; k < part; ++k) {
        const Complex even = room[k], odd = room[part + k] * turns_[k * step];
        out[k] = even + odd;
        out[k + part] = even - odd;
      }
      return;
    }
    for (int64_t k = 0; k < count; ++k) {
      Complex sum = room[k % part];
      for (int64_t j = 1; j < factor; ++j) sum = sum + room[j * part + k % part] * turns_[j * k % count * step];
      out[k] = sum;
    }
  }

  const int64_t size_;
  std::vector<Complex> turns_, room_;
};

constexpr double kLinearTo = 1000; // Hz, Slaney's scale
constexpr double kMelsOfHz = 3.0 / 200, kLinearMels = kLinearTo * kMelsOfHz;
const double kStep = std::log(6.4) / 27;

double mels_of(double hz, MelScale scale) {
  if (scale == MelScale::htk) return 2595 * std::log10(1 + hz / 700);
  return hz < kLinearTo ? hz * kMelsOfHz : kLinearMels + std::log(hz / kLinearTo) / kStep;
}

double hz_of(double mels, MelScale scale) {
  if (scale == MelScale::htk) return 700 * (std::pow(10, mels / 2595) - 1);
  return mels < kLinearMels ? mels / kMelsOfHz : kLinearTo * std::exp((mels - kLinearMels) * kStep);
}

struct Band {
  int64_t first = 0;
  std::vector<double> weights;
};

std::vector<Band> bands_of(const SpectrumSpec& spec) {
  std::vector<Band> bands(spec.bands);
  if (!spec.filters.empty()) {
    const int64_t width = spec.transform / 2 + 1;
    for (int64_t i = 0; i < spec.bands; ++i)
      bands[i].weights.assign(spec.filters.begin() + i * width, spec.filters.begin() + (i + 1) * width);
    return bands;
  }
  const double top = mels_of(static_cast<double>(spec.rate) / 2, spec.scale);
  const auto edge = [&](int64_t i) { // lower edge; edge(i + 1) is the centre
    return hz_of(top * static_cast<double>(i) / static_cast<double>(spec.bands + 1), spec.scale);
  };
  for (int64_t i = 0; i < spec.bands; ++i) {
    const double left = edge(i), centre = edge(i + 1), right = edge(i + 2);
    const double height = spec.scale == MelScale::slaney ? 2 / (right - left) : 1;
    Band& band = bands[i];
    for (int64_t k = 0; k <= spec.transform / 2; ++k) {
      const double hz = static_cast<double>(k * spec.rate) / static_cast<double>(spec.transform);
      if (hz < left || hz > right) continue;
      if (band.weights.empty()) band.first = k;
      band.weights.push_back(height * (hz <= centre ? (hz - left) / (centre - left) : (right - hz) / (right - centre)));
    }
  }
  return bands;
}

double loudness_of(double x, const SpectrumSpec& spec) {
  switch (spec.loudness) {
  case Loudness::log10_of_least: return std::log10(std::max(x, spec.least));
  case Loudness::ln_of_least: return std::log(std::max(x, spec.least));
  case Loudness::ln_of_sum: return std::log(x + spec.least);
  }
  return 0;
}

} // namespace

std::vector<double> hann_window(int64_t length, int64_t transform, int64_t first, bool periodic) {
  std::vector<double> window(transform);
  const auto period = static_cast<double>(periodic ? length : length - 1);
  for (int64_t i = 0; i < length; ++i)
    window[first + i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / period);
  return window;
}

std::vector<float> log_spectrum(std::span<const float> samples, int64_t frames, std::span<const double> window,
                                const SpectrumSpec& spec) {
  const std::vector<Band> bands = bands_of(spec);
  std::vector<float> made(frames * spec.bands);
  // Transforms two frames as real and imaginary parts: sum and difference of numbers k and conj(-k) separate them.
  const auto make = [&](int64_t begin, int64_t end) {
    Fourier fourier(spec.transform);
    std::vector<Complex> windowed(spec.transform), numbers(spec.transform + 1);
    std::vector<double> heights(spec.transform / 2 + 1);
    const auto sample_at = [&](int64_t at) { return at < std::ssize(samples) ? samples[at] : 0.0f; };
    for (int64_t frame = begin; frame < end; frame += 2) {
      const int64_t first = frame * spec.hop;
      for (int64_t i = 0; i < spec.transform; ++i)
        windowed[i] = {window[i] * sample_at(first + i), window[i] * sample_at(first + spec.hop + i)};
      fourier(windowed.data(), numbers.data());
      numbers[spec.transform] = numbers[0];
      for (int64_t which = 0; which < 2 && frame + which < end; ++which) {
        for (int64_t k = 0; k <= spec.transform / 2; ++k) {
          const Complex a = numbers[k], b = {numbers[spec.transform - k].re, -numbers[spec.transform - k].im};
          const Complex own = which == 0 ? a + b : a - b; // twice as large
          const double square = (own.re * own.re + own.im * own.im) / 4;
          heights[k] = spec.of_magnitude ? std::sqrt(square) : square;
        }
        for (int64_t band = 0; band < spec.bands; ++band) {
          double sum = 0;
          for (size_t k = 0; k < bands[band].weights.size(); ++k)
            sum += bands[band].weights[k] * heights[bands[band].first + k];
          made[(frame + which) * spec.bands + band] = static_cast<float>(loudness_of(sum, spec));
        }
      }
    }
  };
  // frames from here are silent
  const int64_t silent = std::min(frames, (std::ssize(samples) + spec.hop - 1) / spec.hop);
  std::fill(made.begin() + silent * spec.bands, made.end(), static_cast<float>(loudness_of(0, spec)));
  constexpr int64_t kWorthAThread = 500;
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const int64_t pieces = std::clamp<int64_t>(silent / kWorthAThread, 1, cores);
  std::vector<std::jthread> others;
  for (int64_t i = 1; i < pieces; ++i) others.emplace_back(make, silent * i / pieces, silent * (i + 1) / pieces);
  make(0, silent / pieces);
  others.clear(); // waits
  return made;
}

} // namespace ridge::media
