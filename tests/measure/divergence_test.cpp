// Divergence compared with naive sums.
#include "measure/divergence.h"

#include "support/numerics.h"

#include <cmath>
#include <random>

using namespace ridge::measure;
using ridge::tests::fresh_seed;
using ridge::tests::softmax;

namespace {

std::vector<float> random_logits(std::mt19937_64& random, size_t n, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(n);
  for (float& v : logits) v = normal(random);
  return logits;
}

} // namespace

TEST_CASE("a position's comparison agrees with the definitions in double precision") {
  const uint64_t seed = fresh_seed();
  INFO("seed ", seed);
  std::mt19937_64 random(seed);
  for (const float spread : {0.1f, 2.0f, 8.0f}) {
    const auto p_logits = random_logits(random, 1000, spread), q_logits = random_logits(random, 1000, spread);
    const auto p = softmax(p_logits), q = softmax(q_logits);
    double expected = 0;
    for (size_t i = 0; i < p.size(); ++i) expected += p[i] * std::log(p[i] / q[i]);
    const PositionScore s = compare(q_logits, p_logits, 17);
    CHECK(s.divergence == doctest::Approx(expected).epsilon(1e-5));
    CHECK(s.log_probability == doctest::Approx(std::log(q[17])).epsilon(1e-5));
    CHECK(s.reference_log_probability == doctest::Approx(std::log(p[17])).epsilon(1e-5));
    CHECK(log_probability(q_logits, 17) == s.log_probability);
    CHECK(compare(p_logits, p_logits, 17).divergence == doctest::Approx(0).epsilon(1e-6));
    CHECK(compare(p_logits, p_logits, 17).same_top);
  }
}

TEST_CASE("a compact reference gives a lower bound that grows to the divergence with the tokens it names") {
  const uint64_t seed = fresh_seed();
  INFO("seed ", seed);
  std::mt19937_64 random(seed);
  const auto p = random_logits(random, 500, 3);
  auto q = p;
  for (float& v : q) v += std::normal_distribution<float>(0, 0.3f)(random);
  const PositionScore full = compare(q, p, 3);
  double last = 0;
  for (const size_t top : {1u, 8u, 64u, 499u}) {
    std::vector<TopDistribution::Entry> entries(top);
    const PositionScore s = compare(q, reduce(p, 3, entries), 3);
    CHECK(s.divergence <= full.divergence + 1e-6);
    CHECK(s.divergence >= last - 1e-6);
    CHECK(s.log_probability == full.log_probability);
    CHECK(s.reference_log_probability == doctest::Approx(full.reference_log_probability).epsilon(1e-6));
    CHECK(s.same_top == full.same_top);
    last = s.divergence;
  }
  CHECK(last == doctest::Approx(full.divergence).epsilon(1e-3));
}

TEST_CASE("a report's means, errors and quantiles are those of its positions") {
  std::vector<PositionScore> scores;
  for (int i = 0; i <= 100; ++i) scores.push_back({-2, -1, i * 0.01, i % 4 == 0});
  const DivergenceReport r = report(scores);
  CHECK(r.divergence.value == doctest::Approx(0.5));
  CHECK(r.divergence.error == doctest::Approx(std::sqrt(101.0 / 12 * 102) / 100 / std::sqrt(101.0)).epsilon(1e-3));
  CHECK(r.divergence_median == doctest::Approx(0.5));
  CHECK(r.divergence_99 == doctest::Approx(0.99));
  CHECK(r.divergence_max == doctest::Approx(1));
  CHECK(r.perplexity.value == doctest::Approx(std::exp(2)));
  CHECK(r.reference_perplexity.value == doctest::Approx(std::exp(1)));
  CHECK(r.log_ratio.value == doctest::Approx(1));
  CHECK(r.probability_change_rms == doctest::Approx(std::exp(-1) - std::exp(-2)));
  CHECK(r.same_top.value == doctest::Approx(26.0 / 101));
}
