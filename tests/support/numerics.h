// How tests share out their turns and compare float results.
#pragma once

#include "support/seed.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

namespace ridge::tests {

// In double precision, without subtracting the largest logit.
inline std::vector<double> softmax(const std::vector<float>& logits) {
  std::vector<double> p;
  double sum = 0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v));
  for (const float v : logits) p.push_back(std::exp(static_cast<double>(v)) / sum);
  return p;
}

// A fresh seed, printed at once: where no CAPTURE reaches.
inline uint64_t printed_seed() {
  const uint64_t seed = fresh_seed();
  MESSAGE("seed ", seed);
  return seed;
}

// Whether a turn of a test's loop is taken: every n-th is, from a random one on. n is RIDGE_TEST_SHARE, else `usual`.
// All turns of a test that takes minutes are more than each run needs, and under a sanitizer a kernel takes some
// hundred times as long.
class Share {
 public:
  explicit Share(int64_t usual = 1)
      : parts_(parts(usual)),
        next_(parts_ > 1 ? static_cast<int64_t>(printed_seed() % static_cast<uint64_t>(parts_)) : 0) {}
  bool takes_next() { return next_++ % parts_ == 0; }
  // What is left of `count` repetitions of the same.
  static int64_t of(int64_t count, int64_t usual = 1) { return (count + parts(usual) - 1) / parts(usual); }

 private:
  static int64_t parts(int64_t usual = 1) {
    const char* wanted = std::getenv("RIDGE_TEST_SHARE");
    return std::max<int64_t>(1, wanted ? std::atoll(wanted) : usual);
  }
  int64_t parts_, next_;
};

// Normalized mean squared error ‖a−b‖² / ‖b‖², b the reference; NaN anywhere gives NaN, which no bound accepts.
inline double nmse(std::span<const float> a, std::span<const float> b) {
  REQUIRE(a.size() == b.size());
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    error += difference * difference;
    norm += static_cast<double>(b[i]) * b[i];
  }
  return norm == 0 ? error : error / norm;
}

} // namespace ridge::tests
