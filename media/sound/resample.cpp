// Sounds at other rates: the ideal low-pass under a Kaiser window.
#include "media/sound/sound.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

namespace ridge::media {
namespace {

constexpr double kStop = 90;                     // dB that the lower rate cannot hold are less
constexpr double kPassed = 0.9;                  // of half the lower rate
constexpr double kBeta = 0.1102 * (kStop - 8.7); // Kaiser's formulas
constexpr int64_t kMaxPhases = 1024, kLanes = 8;

double bessel_i0(double x) {
  double sum = 1, term = 1;
  for (int i = 1; term > 1e-17 * sum; ++i) {
    term *= x / (2 * i) * (x / (2 * i));
    sum += term;
  }
  return sum;
}

// Weights of the samples around a place between two of them, for places that are multiples of 1 / phases.
class Weights {
 public:
  // From `in` samples to `out`.
  Weights(int64_t in, int64_t out) : phases_(std::min(out, kMaxPhases)) {
    const double lower = static_cast<double>(std::min(in, out)) / static_cast<double>(in);
    const double width = (kStop - 8) / (2.285 * std::numbers::pi * (1 - kPassed) * lower);
    half_ = static_cast<int64_t>(std::ceil(width / 2));
    taps_ = (2 * half_ + kLanes - 1) / kLanes * kLanes;
    const double cutoff = lower * (1 + kPassed) / 2, whole = bessel_i0(kBeta);
    values_.resize((phases_ + 1) * taps_);
    for (int64_t phase = 0; phase <= phases_; ++phase)
      for (int64_t tap = 0; tap < 2 * half_; ++tap) {
        const double t =
            static_cast<double>(tap - half_ + 1) - static_cast<double>(phase) / static_cast<double>(phases_);
        const double x = std::numbers::pi * cutoff * t, edge = t / static_cast<double>(half_);
        if (std::abs(edge) >= 1) continue;
        const double ideal = cutoff * (std::abs(x) < 1e-9 ? 1 : std::sin(x) / x);
        values_[phase * taps_ + tap] =
            static_cast<float>(ideal * bessel_i0(kBeta * std::sqrt(1 - edge * edge)) / whole);
      }
  }

  int64_t before() const { return half_ - 1; } // samples before the one at or before a place
  int64_t taps() const { return taps_; }

  // The value `place` behind the sample at `samples + before()`; 0 to 1.
  float operator()(const float* samples, double place) const {
    const double phase = place * static_cast<double>(phases_);
    const auto row = std::min(static_cast<int64_t>(phase), phases_ - 1);
    const auto share = static_cast<float>(phase - static_cast<double>(row));
    const float value = sum(samples, row);
    return share == 0 ? value : value + share * (sum(samples, row + 1) - value);
  }

 private:
  float sum(const float* samples, int64_t row) const {
    const float* weights = values_.data() + row * taps_;
    std::array<float, kLanes> sums = {};
    for (int64_t tap = 0; tap < taps_; tap += kLanes)
      for (int64_t i = 0; i < kLanes; ++i) sums[i] += weights[tap + i] * samples[tap + i];
    return std::accumulate(sums.begin(), sums.end(), 0.0f);
  }

  int64_t phases_, half_, taps_;
  std::vector<float> values_; // [phases + 1][taps]
};

} // namespace

std::vector<float> resampled(const Sound& sound, int64_t rate) {
  if (sound.rate == rate) return sound.samples;
  const int64_t divisor = std::gcd(sound.rate, rate), in = sound.rate / divisor, out = rate / divisor;
  const Weights weights(in, out);
  std::vector<float> padded(weights.before());
  padded.insert(padded.end(), sound.samples.begin(), sound.samples.end());
  padded.resize(padded.size() + weights.taps());
  std::vector<float> made((std::ssize(sound.samples) * out + in - 1) / in);
  for (int64_t i = 0; i < std::ssize(made); ++i) {
    const int64_t at = i * in;
    made[i] = weights(padded.data() + at / out, static_cast<double>(at % out) / static_cast<double>(out));
  }
  return made;
}

} // namespace ridge::media
