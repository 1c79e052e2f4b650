// Shares of test loops, and comparison of floats.
#pragma once

#include "support/seed.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <ranges>
#include <span>
#include <vector>

namespace ridge::tests {

inline std::vector<double> softmax(const std::vector<float>& logits) {
  std::vector<double> p;
  double sum = 0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v));
  for (const float v : logits) p.push_back(std::exp(static_cast<double>(v)) / sum);
  return p;
}

// A seed for code that CAPTURE does not cover.
inline uint64_t printed_seed() {
  const uint64_t seed = fresh_seed();
  MESSAGE("seed ", seed);
  return seed;
}

// Selects every n-th iteration of a test loop, with a random start; n is RIDGE_TEST_SHARE or `usual`. Full loops take
// minutes, and sanitizers slow kernels about 100 times.
class Share {
 public:
  explicit Share(int64_t usual = 1)
      : parts_(parts(usual)),
        next_(parts_ > 1 ? static_cast<int64_t>(printed_seed() % static_cast<uint64_t>(parts_)) : 0) {}
  bool takes_next() { return next_++ % parts_ == 0; }
  static int64_t of(int64_t count, int64_t usual = 1) { return (count + parts(usual) - 1) / parts(usual); }

 private:
  static int64_t parts(int64_t usual = 1) {
    const char* wanted = std::getenv("RIDGE_TEST_SHARE");
    return std::max<int64_t>(1, wanted ? std::atoll(wanted) : usual);
  }
  int64_t parts_, next_;
};

// The elements of a share's iterations.
template <std::ranges::range Range>
std::vector<std::ranges::range_value_t<Range>> share_of(Range&& all, int64_t usual = 1) {
  Share share(usual);
  std::vector<std::ranges::range_value_t<Range>> taken;
  for (auto&& element : all)
    if (share.takes_next()) taken.push_back(element);
  return taken;
}

struct Squares {
  double error, norm; // ‖a−b‖², ‖b‖²
};

inline Squares squares(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  Squares sum{};
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    sum.error += difference * difference;
    sum.norm += static_cast<double>(b[i]) * b[i];
  }
  return sum;
}

// ‖a−b‖² / ‖b‖², with the reference b; NaN fails all bounds.
inline double nmse(std::span<const float> a, std::span<const float> b) {
  const Squares sum = squares(a, b);
  return sum.norm == 0 ? sum.error : sum.error / sum.norm;
}

inline double worse(double worst, double error) { return error > worst || std::isnan(error) ? error : worst; }

// The worst NMSE of several batches. Where a batch's terms cancel, rounding is as large as its values: its mean square
// counts as at least a thousandth of the mean over all batches.
class WorstError {
 public:
  void add(std::span<const float> a, std::span<const float> b) {
    batches_.push_back({squares(a, b), static_cast<double>(b.size())});
    norm_ += batches_.back().squares.norm;
    values_ += batches_.back().values;
  }
  double nmse() const {
    double worst = 0;
    for (const auto& [sum, values] : batches_) {
      const double norm = std::max(sum.norm, 1e-3 * values * norm_ / values_);
      worst = worse(worst, norm == 0 ? sum.error : sum.error / norm);
    }
    return worst;
  }

 private:
  struct Batch {
    Squares squares;
    double values;
  };
  std::vector<Batch> batches_;
  double norm_ = 0, values_ = 0;
};

} // namespace ridge::tests
