#pragma once

#include <cstdint>

namespace ridge::quant {

struct ErrorStats {
  int64_t weights = 0;
  double error = 0, signal = 0; // Σ (decoded - original)², Σ original²
  double weighted_error = 0, weighted_signal = 0;
  double dot = 0, decoded_signal = 0; // Σ original * decoded, Σ decoded²
  double max_error = 0;

  // importance: [cols]; nullptr: ones.
  void add_row(const float* original, const float* decoded, int64_t cols, const float* importance);
  ErrorStats& operator+=(const ErrorStats& other);

  double rmse() const;
  double sqnr_db() const; // infinite if lossless
  double cosine() const;
  double relative() const { return signal > 0 ? error / signal : 0; }
  double weighted_relative() const { return weighted_signal > 0 ? weighted_error / weighted_signal : relative(); }
};
#pragma omp declare reduction(+ : ErrorStats : omp_out += omp_in)

} // namespace ridge::quant
