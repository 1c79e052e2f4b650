#include "core/sampler.h"

#include "core/error.h"
#include "core/plain_sampling.h"
#include "core/random.h"
#include "support/numerics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

using namespace ridge::core;
using ridge::tests::plain_sampling;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<int32_t> tokens_of(const Sampler& sampler) {
  std::vector<int32_t> tokens;
  for (const Candidate& candidate : sampler.candidates()) tokens.push_back(candidate.token);
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

std::vector<float> log_of(std::vector<float> probabilities) {
  for (float& p : probabilities) p = std::log(p);
  return probabilities;
}

std::vector<float> random_logits(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> logits(n);
  for (float& x : logits) x = static_cast<float>(random() >> 40) * 0x1p-20f;
  return logits;
}

std::string message_of(const SamplerParams& params) {
  try {
    validate(params);
  } catch (const Error& error) {
    CHECK(error.exit_code == Error::kUsage);
    return error.what();
  }
  return "";
}

struct OnlyTokens : TokenMask {
  std::vector<int32_t> allowed;
  int applications = 0;
  bool allows(int32_t token) override { return std::find(allowed.begin(), allowed.end(), token) != allowed.end(); }
  void apply(std::span<float> logits) override {
    ++applications;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (!allows(static_cast<int32_t>(i))) logits[i] = -kInfinity;
    }
  }
};

} // namespace

TEST_CASE("temperature 0 takes the highest logit, of equals the lowest id") {
  SamplerParams params;
  params.temp = 0;
  Sampler sampler(params, 5);
  CHECK(sampler.sample(std::vector<float>{1, 3, 2, 3, -1}) == 1);
  REQUIRE(sampler.candidates().size() == 1);
  CHECK(sampler.candidates()[0].probability == 1.0f);
}

TEST_CASE("one seed gives the same tokens again, in the same and in another sampler") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  const auto logits = random_logits(1000, seed);
  SamplerParams params;
  params.seed = static_cast<int64_t>(seed);
  params.temp = 2.0f;
  Sampler a(params, 1000), b(params, 1000);
  CHECK(a.seed() == seed);
  std::vector<int32_t> drawn;
  for (int i = 0; i < 100; ++i) {
    drawn.push_back(a.sample(logits));
    CHECK(b.sample(logits) == drawn.back());
  }
  CHECK(std::count(drawn.begin(), drawn.end(), drawn[0]) < 100);
  a.reset();
  for (const int32_t token : drawn) CHECK(a.sample(logits) == token);
}

TEST_CASE("a known seed draws known tokens on every platform") {
  Sampler sampler(plain_sampling(42), 4);
  const auto logits = log_of({0.1f, 0.2f, 0.3f, 0.4f});
  std::string drawn;
  for (int i = 0; i < 16; ++i) drawn += static_cast<char>('0' + sampler.sample(logits));
  // Candidates are in the order 3, 2, 1, 0.
  std::string expected;
  for (uint64_t i = 0; i < 16; ++i) {
    const double u = uniform(42, i);
    expected += u < 0.4 ? '3' : u < 0.7 ? '2' : u < 0.9 ? '1' : '0';
  }
  CHECK(drawn == expected);
  CHECK(mix_bits(1) == 0x5692161d100b05e5);
}

TEST_CASE("random numbers are uniform, whether the seed moves or the place") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  constexpr int kDraws = 100000, kBuckets = 100;
  for (const bool seeds : {false, true}) {
    std::vector<double> counts(kBuckets, 0.0);
    for (uint64_t i = 0; i < kDraws; ++i) {
      const double u = seeds ? uniform(seed + i, 3) : uniform(seed, i);
      REQUIRE(u >= 0);
      REQUIRE(u < 1);
      ++counts[static_cast<size_t>(u * kBuckets)];
    }
    double chi_square = 0;
    for (const double count : counts)
      chi_square += (count - kDraws / kBuckets) * (count - kDraws / kBuckets) / (kDraws / kBuckets);
    CHECK(chi_square < 190); // 99 degrees of freedom: exceeded once in ten million
  }
}

TEST_CASE("without a seed one is chosen, can be read, and repeats the text") {
  SamplerParams params;
  Sampler a(params, 1000);
  Sampler other(params, 1000);
  CHECK(a.seed() != other.seed());
  params.seed = static_cast<int64_t>(a.seed());
  Sampler b(params, 1000);
  const auto logits = random_logits(1000, 7);
  for (int i = 0; i < 20; ++i) CHECK(a.sample(logits) == b.sample(logits));
}

TEST_CASE("tokens are drawn as often as their probabilities say") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  const std::vector<float> p = {0.5f, 0.25f, 0.15f, 0.1f};
  Sampler sampler(plain_sampling(static_cast<int64_t>(seed)), 4);
  std::map<int32_t, int> counts;
  constexpr int kDraws = 100000;
  const auto logits = log_of(p);
  for (int i = 0; i < kDraws; ++i) ++counts[sampler.sample(logits)];
  for (int t = 0; t < 4; ++t) {
    const double sigma = std::sqrt(kDraws * p[t] * (1 - p[t]));
    CHECK(std::abs(counts[t] - kDraws * p[t]) < 6 * sigma);
  }
}

TEST_CASE("temperature divides the logits") {
  SamplerParams params = plain_sampling();
  params.temp = 0.5f;
  Sampler sampler(params, 2);
  sampler.sample(log_of({0.8f, 0.2f}));
  CHECK(sampler.candidates()[0].probability == doctest::Approx(0.64 / 0.68));
}

TEST_CASE("top-k keeps exactly the k highest, of equals the lowest ids, whichever way they are selected") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  auto logits = random_logits(5000, seed);
  for (float& x : logits) x = std::floor(x * 4);
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  for (const int k : {1, 2, 40, 512, 513, 2000, 5000, 9000}) {
    CAPTURE(k);
    SamplerParams params = plain_sampling();
    params.top_k = k;
    Sampler sampler(params, 5000);
    sampler.sample(logits);
    std::vector<int32_t> expected(order.begin(), order.begin() + std::min(k, 5000));
    for (size_t i = 0; i < std::min<size_t>(64, expected.size()); ++i) {
      CHECK(sampler.candidates()[i].token == expected[i]);
    }
    std::sort(expected.begin(), expected.end());
    CHECK(tokens_of(sampler) == expected);
  }
}

TEST_CASE("top-p keeps the fewest most probable tokens that reach the mass") {
  SamplerParams params = plain_sampling();
  params.top_p = 0.7f;
  Sampler sampler(params, 4);
  sampler.sample(log_of({0.1f, 0.4f, 0.2f, 0.3f}));
  CHECK(tokens_of(sampler) == std::vector<int32_t>{1, 3});
  params.top_p = 0.75f;
  Sampler wider(params, 4);
  wider.sample(log_of({0.1f, 0.4f, 0.2f, 0.3f}));
  CHECK(tokens_of(wider) == std::vector<int32_t>{1, 2, 3});
  params.top_p = 0.0f;
  Sampler narrow(params, 4);
  CHECK(narrow.sample(log_of({0.1f, 0.4f, 0.2f, 0.3f})) == 1);
}

TEST_CASE("top-p over a large flat vocabulary agrees with a full sort") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  auto logits = random_logits(20000, seed);
  for (float& x : logits) x *= 0.1f;
  std::vector<double> weights;
  for (const float x : logits) weights.push_back(std::exp(x - 1.6));
  std::sort(weights.rbegin(), weights.rend());
  double total = 0, sum = 0;
  for (const double w : weights) total += w;
  size_t expected = 0;
  while (sum < 0.6 * total) sum += weights[expected++];
  SamplerParams params = plain_sampling();
  params.top_p = 0.6f;
  Sampler sampler(params, 20000);
  sampler.sample(logits);
  CHECK(std::abs(static_cast<double>(sampler.candidates().size()) - static_cast<double>(expected)) <= 1);
}

TEST_CASE("min-p keeps tokens at least that fraction as probable as the best") {
  SamplerParams params = plain_sampling();
  params.min_p = 0.5f;
  Sampler sampler(params, 4);
  sampler.sample(log_of({0.4f, 0.21f, 0.19f, 0.2f}));
  CHECK(tokens_of(sampler) == std::vector<int32_t>{0, 1});
}

TEST_CASE("typical-p prefers tokens of typical surprise to the most probable one") {
  // Entropy 1.47 nats; surprises: 1.61 for 0.2, 0.92 for 0.4.
  SamplerParams params = plain_sampling();
  params.typical_p = 0.35f;
  Sampler sampler(params, 5);
  sampler.sample(log_of({0.4f, 0.2f, 0.2f, 0.1f, 0.1f}));
  CHECK(tokens_of(sampler) == std::vector<int32_t>{1, 2});
}

TEST_CASE("the filters act in order, each on what the one before left") {
  // top-k 2 leaves 0.571 and 0.429; top-p keeps one of these.
  SamplerParams params = plain_sampling();
  params.top_k = 2;
  params.top_p = 0.55f;
  Sampler sampler(params, 4);
  sampler.sample(log_of({0.4f, 0.3f, 0.2f, 0.1f}));
  CHECK(tokens_of(sampler) == std::vector<int32_t>{0});
}

TEST_CASE("penalties count the recent tokens only") {
  SamplerParams params;
  params.temp = 0;
  params.repeat_last_n = 2;
  params.repeat_penalty = 2.0f;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.25f;
  Sampler sampler(params, 3);
  const std::vector<float> logits = {4.0f, -1.0f, 0.5f};
  CHECK(sampler.sample(logits) == 0);
  CHECK(sampler.candidates()[0].logit == 4.0f);
  sampler.accept(0);
  sampler.sample(logits);
  CHECK(sampler.candidates()[0].logit == 4.0f / 2 - 0.25f - 0.5f);
  sampler.accept(0);
  sampler.sample(logits);
  CHECK(sampler.candidates()[0].logit == 4.0f / 2 - 2 * 0.25f - 0.5f);
  sampler.accept(1);
  sampler.accept(1);
  sampler.sample(logits);
  CHECK(sampler.candidates()[0].logit == 4.0f);
  const std::vector<float> negative = {-9.0f, -1.0f, -9.0f};
  CHECK(sampler.sample(negative) == 1);
  CHECK(sampler.candidates()[0].logit == -1.0f * 2 - 2 * 0.25f - 0.5f);
  sampler.reset();
  sampler.sample(negative);
  CHECK(sampler.candidates()[0].logit == -1.0f);
}

TEST_CASE("repeat-last-n -1 remembers everything, 0 nothing") {
  SamplerParams params;
  params.temp = 0;
  params.presence_penalty = 10.0f;
  const std::vector<float> logits = {4.0f, 1.0f, 0.5f};
  for (const int n : {-1, 0}) {
    params.repeat_last_n = n;
    Sampler sampler(params, 3);
    sampler.accept(0);
    for (int i = 0; i < 1000; ++i) sampler.accept(2);
    CHECK(sampler.sample(logits) == (n == -1 ? 1 : 0));
  }
}

TEST_CASE("NaN logits are an error, infinite ones are not") {
  Sampler sampler(plain_sampling(), 4);
  CHECK_THROWS_WITH_AS(sampler.sample(std::vector<float>{1, NAN, 2, 3}), doctest::Contains("NaN logits (1 of 4)"),
                       Error);
  for (int i = 0; i < 50; ++i) {
    CHECK(sampler.sample(std::vector<float>{-kInfinity, 5, -kInfinity, -kInfinity}) == 1);
    const int32_t token = sampler.sample(std::vector<float>{kInfinity, 5, kInfinity, -kInfinity});
    CHECK((token == 0 || token == 2));
  }
  CHECK_THROWS_WITH_AS(sampler.sample(std::vector<float>(4, -kInfinity)), doctest::Contains("no token is possible"),
                       Error);
  SamplerParams every = plain_sampling();
  every.top_k = 3;
  every.top_p = every.min_p = every.typical_p = 0.5f;
  every.repeat_penalty = 1.5f;
  Sampler filtered(every, 4);
  filtered.accept(0);
  for (int i = 0; i < 50; ++i) CHECK(filtered.sample(std::vector<float>{kInfinity, 5, 3, -kInfinity}) == 0);
}

TEST_CASE("a mask is applied to the vocabulary only when it refuses the free choice") {
  SamplerParams params;
  params.temp = 0;
  Sampler sampler(params, 4);
  OnlyTokens mask;
  mask.allowed = {1, 2};
  CHECK(sampler.sample(std::vector<float>{1, 9, 3, 4}, &mask) == 1);
  CHECK(mask.applications == 0);
  CHECK(sampler.sample(std::vector<float>{9, 1, 3, 4}, &mask) == 2);
  CHECK(mask.applications == 1);
  mask.allowed = {};
  CHECK_THROWS_AS(sampler.sample(std::vector<float>{9, 1, 3, 4}, &mask), Error);
}

TEST_CASE("masked sampling never yields a forbidden token and keeps the proportions of the rest") {
  const uint64_t seed = ridge::tests::fresh_seed();
  CAPTURE(seed);
  Sampler sampler(plain_sampling(static_cast<int64_t>(seed)), 4);
  OnlyTokens mask;
  mask.allowed = {2, 3};
  const auto logits = log_of({0.5f, 0.2f, 0.2f, 0.1f});
  int twos = 0;
  constexpr int kDraws = 30000;
  for (int i = 0; i < kDraws; ++i) {
    const int32_t token = sampler.sample(logits, &mask);
    REQUIRE((token == 2 || token == 3));
    twos += token == 2;
  }
  CHECK(std::abs(twos - kDraws * 2.0 / 3) < 6 * std::sqrt(kDraws * 2.0 / 9));
}

TEST_CASE("a parameter out of range is refused by its flag's name") {
  const auto refused = [](auto change, const std::string& flag) {
    SamplerParams params;
    change(params);
    CHECK(message_of(params).starts_with(flag + " must be "));
  };
  CHECK(message_of({}) == "");
  refused([](auto& p) { p.temp = -1; }, "--temp");
  refused([](auto& p) { p.temp = NAN; }, "--temp");
  refused([](auto& p) { p.top_k = -1; }, "--top-k");
  refused([](auto& p) { p.top_p = 1.5f; }, "--top-p");
  refused([](auto& p) { p.min_p = -0.1f; }, "--min-p");
  refused([](auto& p) { p.typical_p = 0; }, "--typical");
  refused([](auto& p) { p.repeat_penalty = 0; }, "--repeat-penalty");
  refused([](auto& p) { p.repeat_last_n = -2; }, "--repeat-last-n");
  refused([](auto& p) { p.presence_penalty = kInfinity; }, "--presence-penalty");
  refused([](auto& p) { p.frequency_penalty = NAN; }, "--frequency-penalty");
  refused([](auto& p) { p.seed = -2; }, "--seed");
}

TEST_CASE("a bias is added to its token's logit before penalties, and shifts probabilities as much") {
  SamplerParams params = plain_sampling();
  params.temp = 0;
  params.bias = {{2, -100}, {1, 3}, {1, 0.5f}};
  CHECK(Sampler(params, 4).sample(std::vector<float>{3, 0, 9, 2}) == 1);
  params.repeat_penalty = 2;
  Sampler repeating(params, 4);
  repeating.accept(1);
  CHECK(repeating.sample(std::vector<float>{3, 0, 9, 2}) == 0);

  params = plain_sampling(5);
  params.bias = {{0, std::log(2.0f)}};
  Sampler drawing(params, 3);
  drawing.sample(log_of({0.25f, 0.25f, 0.5f}));
  for (const auto& one : drawing.candidates()) CHECK(one.probability == doctest::Approx(one.token == 1 ? 0.2 : 0.4));

  params.bias = {{4, 1}};
  CHECK_THROWS_WITH_AS(Sampler(params, 4), "the bias for token 4 is outside the vocabulary (0 to 3)", Error);
  params.bias = {{-1, 1}};
  CHECK_THROWS_AS(Sampler(params, 4), Error);
  params.bias = {{1, NAN}};
  CHECK_THROWS_AS(Sampler(params, 4), Error);
}

TEST_CASE("wrong row lengths and foreign tokens are refused") {
  Sampler sampler(plain_sampling(), 4);
  CHECK_THROWS_AS(sampler.sample(std::vector<float>{1, 2}), Error);
  CHECK_THROWS_AS(sampler.accept(4), Error);
  CHECK_THROWS_AS(sampler.accept(-1), Error);
}
