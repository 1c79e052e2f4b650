#include "quant/error_stats.h"

#include "core/target_clones.h"

#include <algorithm>
#include <cmath>

namespace ridge::quant {

RIDGE_CLONES void ErrorStats::add_row(const float* original, const float* decoded, int64_t cols,
                                      const float* importance) {
  // Short f32 sums vectorize; totals are double.
  constexpr int kLanes = 16;
  constexpr int64_t kRun = 512;
  for (int64_t start = 0; start < cols; start += kRun) {
    const int64_t end = std::min(cols, start + kRun);
    float e[kLanes] = {}, s[kLanes] = {}, we[kLanes] = {}, ws[kLanes] = {}, d[kLanes] = {}, q[kLanes] = {},
          m[kLanes] = {};
    const auto add = [&](int64_t i, int lane) {
      const float a = original[i], b = decoded[i], difference = b - a, w = importance ? importance[i] : 1.0f;
      e[lane] += difference * difference;
      s[lane] += a * a;
      we[lane] += w * (difference * difference);
      ws[lane] += w * (a * a);
      d[lane] += a * b;
      q[lane] += b * b;
      m[lane] = std::max(m[lane], std::fabs(difference));
    };
    int64_t i = start;
    for (; i + kLanes <= end; i += kLanes)
      for (int lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
    for (int lane = 0; i < end; ++i, ++lane) add(i, lane);
    for (int lane = 0; lane < kLanes; ++lane) {
      error += e[lane];
      signal += s[lane];
      weighted_error += we[lane];
      weighted_signal += ws[lane];
      dot += d[lane];
      decoded_signal += q[lane];
      max_error = std::max(max_error, static_cast<double>(m[lane]));
    }
  }
  weights += cols;
}

ErrorStats& ErrorStats::operator+=(const ErrorStats& other) {
  weights += other.weights;
  error += other.error;
  signal += other.signal;
  weighted_error += other.weighted_error;
  weighted_signal += other.weighted_signal;
  dot += other.dot;
  decoded_signal += other.decoded_signal;
  max_error = std::max(max_error, other.max_error);
  return *this;
}

double ErrorStats::rmse() const { return weights > 0 ? std::sqrt(error / static_cast<double>(weights)) : 0; }
double ErrorStats::sqnr_db() const { return error > 0 ? 10 * std::log10(signal / error) : INFINITY; }
double ErrorStats::cosine() const {
  const double norms = std::sqrt(signal * decoded_signal);
  return norms > 0 ? dot / norms : 1;
}

} // namespace ridge::quant
