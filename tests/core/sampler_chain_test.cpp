// Rarely used samplers and unusual orders.
#include "core/error.h"
#include "core/plain_sampling.h"
#include "core/random.h"
#include "core/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

using namespace ridge::core;
using ridge::tests::plain_sampling;
using enum SamplerKind;

namespace {

std::vector<float> logs_of(std::vector<float> probabilities) {
  for (float& p : probabilities) p = std::log(p);
  return probabilities;
}

std::vector<int32_t> left_of(const SamplerParams& params, const std::vector<float>& logits,
                             const TokenTexts* texts = nullptr) {
  Sampler sampler(params, std::ssize(logits), texts);
  sampler.sample(logits);
  std::vector<int32_t> tokens;
  for (const Candidate& candidate : sampler.candidates()) tokens.push_back(candidate.token);
  std::ranges::sort(tokens);
  return tokens;
}

float probability_of(const Sampler& sampler, int32_t token) {
  const auto at = std::ranges::find(sampler.candidates(), token, &Candidate::token);
  return at == sampler.candidates().end() ? 0 : at->probability;
}

using Ids = std::vector<int32_t>;

struct Letters : TokenTexts {
  std::vector<std::string> pieces = {"", "a", "ab", "b", "c\n", "d", "e", "f"};
  std::string_view piece(int32_t token) const override { return pieces[token]; }
  bool ends(int32_t token) const override { return token == 0; }
  int32_t end() const override { return 0; }
};

} // namespace

TEST_CASE("top-n-sigma keeps logits within so many standard deviations of the highest") {
  SamplerParams params = plain_sampling();
  params.top_n_sigma = 1;
  CHECK(left_of(params, {0, 4, 0, 4, 2.5f, 1.5f}) == Ids{1, 3, 4});
  params.top_n_sigma = 0;
  CHECK(left_of(params, {0, 4, 0, 4, 2.5f, 1.5f}).size() == 6);
  params.top_n_sigma = 1;
  params.temp = 3;
  params.order = {temperature, top_n_sigma};
  CHECK(left_of(params, {0, 4, 0, 4, 2.5f, 1.5f}) == Ids{1, 3, 4});
}

TEST_CASE("XTC removes all but the least of the probable tokens, as often as it is to") {
  const std::vector<float> logits = logs_of({0.4f, 0.3f, 0.2f, 0.06f, 0.04f});
  SamplerParams params = plain_sampling();
  params.xtc_probability = 1;
  params.xtc_threshold = 0.1f;
  CHECK(left_of(params, logits) == Ids{2, 3, 4});
  params.xtc_threshold = 0.35f;
  CHECK(left_of(params, logits).size() == 5);
  params.xtc_threshold = 0.1f;
  params.min_keep = 4;
  CHECK(left_of(params, logits).size() == 5);
  params.min_keep = 0;
  params.xtc_probability = 0.25f;
  Sampler sampler(params, 5);
  int excluded = 0;
  for (int i = 0; i < 4000; ++i) {
    sampler.sample(logits);
    excluded += sampler.candidates().size() == 3;
  }
  CHECK(excluded > 850);
  CHECK(excluded < 1150);
  params.temp = 0;
  params.xtc_probability = 1;
  CHECK(Sampler(params, 5).sample(logits) == 2);
}

TEST_CASE("a dynamic temperature is low where one token is sure and high where none is") {
  SamplerParams params = plain_sampling();
  params.temp = 1;
  params.dynatemp_range = 0.5f;
  const auto ratio = [&](const std::vector<float>& logits) {
    Sampler sampler(params, std::ssize(logits));
    sampler.sample(logits);
    return std::log(probability_of(sampler, 0) / probability_of(sampler, 1));
  };
  CHECK(ratio({1, 1 - 1e-3f, 1, 1}) == doctest::Approx(1e-3f / 1.5f).epsilon(1e-3));
  const std::vector<float> sure = {20, 0, 0, 0};
  CHECK(ratio(sure) == doctest::Approx(20 / 0.5f).epsilon(1e-3));
  params.dynatemp_exponent = 0;
  CHECK(ratio(sure) == doctest::Approx(20 / 1.5f).epsilon(1e-3));
}

TEST_CASE("mirostat 2 removes tokens more surprising than it allows and learns from what is drawn") {
  const std::vector<float> logits = logs_of({0.5f, 0.25f, 0.125f, 0.0625f, 0.0625f});
  SamplerParams params = plain_sampling();
  params.mirostat = 2;
  params.mirostat_tau = 1.25f; // the initial limit is twice that, 2.5 bits
  params.mirostat_eta = 0.5f;
  params.top_k = 1;
  CHECK(left_of(params, logits) == Ids{0, 1});
  Sampler sampler(params, 5);
  int32_t token = sampler.sample(logits);
  const double surprise = token == 0 ? -std::log2(2 / 3.0) : -std::log2(1 / 3.0);
  sampler.accept(token);
  const double allowed = 2.5 - 0.5 * (surprise - 1.25);
  sampler.sample(logits);
  CHECK(sampler.candidates().size() == (allowed >= 3 ? 3 : allowed >= 2 ? 2 : 1));
  params.mirostat_tau = 0;
  CHECK(left_of(params, logits) == Ids{0});
}

TEST_CASE("mirostat, of either version, holds the average surprise to its target") {
  std::vector<float> logits(2000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = -1.1f * std::log(static_cast<float>(i + 1));
  for (const int version : {1, 2}) {
    SamplerParams params = plain_sampling(7);
    params.mirostat = version;
    params.mirostat_tau = 3;
    Sampler sampler(params, std::ssize(logits));
    double total = 0, sum = 0;
    for (int i = 0; i < 3000; ++i) {
      const int32_t token = sampler.sample(logits);
      if (i >= 1000) sum += -std::log2(probability_of(sampler, token)), ++total;
      sampler.accept(token);
    }
    CAPTURE(version);
    CHECK(sum / total == doctest::Approx(3).epsilon(0.1));
  }
}

TEST_CASE("adaptive-p draws tokens of about the wanted probability") {
  const std::vector<float> logits = logs_of({0.6f, 0.2f, 0.1f, 0.05f, 0.05f});
  for (const float target : {0.1f, 0.3f}) {
    SamplerParams params = plain_sampling(3);
    params.adaptive_target = target;
    Sampler sampler(params, 5);
    double sum = 0;
    for (int i = 0; i < 4000; ++i) {
      const int32_t token = sampler.sample(logits);
      sum += std::exp(logits[token]);
      sampler.accept(token);
    }
    CHECK(sum / 4000 == doctest::Approx(target).epsilon(0.25));
  }
}

TEST_CASE("DRY's penalty grows with the length of the repetition, and stops at breakers") {
  const Letters letters;
  SamplerParams params = plain_sampling();
  params.dry.multiplier = 1;
  params.dry.base = 2;
  params.dry.breakers = {"\n"};
  const std::vector<float> flat(6, 0.0f);
  const auto penalty = [&](const Ids& text, int32_t token) {
    Sampler sampler(params, 6, &letters);
    for (const int32_t one : text) sampler.accept(one);
    sampler.sample(flat);
    float highest = 0;
    for (const Candidate& candidate : sampler.candidates()) highest = std::max(highest, candidate.probability);
    return std::log(highest / probability_of(sampler, token));
  };
  CHECK(penalty({1, 3, 5, 1}, 3) == doctest::Approx(0));
  CHECK(penalty({1, 3, 5, 1, 3}, 5) == doctest::Approx(1));       // two: 2^0
  CHECK(penalty({1, 3, 5, 2, 1, 3, 5}, 2) == doctest::Approx(2)); // three: 2^1
  CHECK(penalty({2, 1, 3, 5, 2, 2, 1, 3, 5}, 2) == doctest::Approx(4));
  CHECK(penalty({1, 3, 5, 1, 3}, 2) == doctest::Approx(0));
  CHECK(penalty({1, 4, 3, 5, 1, 4, 3}, 5) == doctest::Approx(0));
  CHECK(penalty({1, 3, 4, 1, 3}, 4) == doctest::Approx(0));
  params.dry.last_n = 3;
  CHECK(penalty({1, 3, 5, 1, 3}, 5) == doctest::Approx(0));
  params.dry.last_n = -1;
  params.dry.allowed_length = 3;
  CHECK(penalty({1, 3, 5, 1, 3}, 5) == doctest::Approx(0));
  params.dry.allowed_length = 2;
  params.dry.breakers = {"aba"};
  CHECK(penalty({3, 5, 1, 2, 1, 3, 5}, 1) == doctest::Approx(1));
  CHECK(penalty({3, 5, 1, 3, 5, 2, 1}, 3) == doctest::Approx(0));
}

TEST_CASE("DRY over a long text finds the longest repetition of each token") {
  SamplerParams params = plain_sampling();
  params.dry.multiplier = 1;
  params.dry.base = 1.5f;
  params.dry.last_n = -1;
  Repetitions repetitions(params.dry, nullptr);
  std::vector<int32_t> text;
  for (uint64_t i = 0; i < 400; ++i) {
    text.push_back(static_cast<int32_t>(mix_bits(i) % 3));
    repetitions.accept(text.back());
  }
  std::map<int32_t, size_t> longest;
  for (size_t end = 1; end < text.size(); ++end) {
    size_t length = 0;
    while (length < end && text[end - 1 - length] == text[text.size() - 1 - length]) ++length;
    longest[text[end]] = std::max(longest[text[end]], length);
  }
  std::map<int32_t, float> found;
  for (const Repetitions::Penalty& one : repetitions.penalties()) found[one.token] = one.value;
  for (const auto& [token, length] : longest)
    CHECK(found[token] == doctest::Approx(length >= 2 ? std::pow(1.5, length - 2) : 0));
}

TEST_CASE("infill ends a text where its end is probable, and keeps tokens that are certain") {
  const Letters letters;
  SamplerParams params = plain_sampling();
  params.order = {infill};
  CHECK(left_of(params, logs_of({0.1f, 0.3f, 0.2f, 0.2f, 0.1f, 0.1f}), &letters) == Ids{0});
  // "a" and "ab" are merged; no other token reaches 0.2.
  CHECK(left_of(params, logs_of({0.001f, 0.3f, 0.3f, 0.15f, 0.15f, 0.099f}), &letters) == Ids{0, 1});
  CHECK(left_of(params, logs_of({1e-6f, 0.16f, 1e-6f, 0.16f, 0.16f, 0.16f, 0.16f, 0.16f}), &letters) == Ids{0});
  CHECK(left_of(params, logs_of({0.1f, 0.3f, 0.2f, 0.2f, 0.1f, 0.1f})).size() == 6);
}

TEST_CASE("samplers run in the order that is asked for, and those that are not named are off") {
  const std::vector<float> logits = logs_of({0.5f, 0.3f, 0.15f, 0.05f});
  SamplerParams params = plain_sampling();
  params.temp = 4; // flattened to 0.31, 0.28, 0.23, 0.18
  params.top_p = 0.6f;
  params.order = {top_p, temperature};
  CHECK(left_of(params, logits) == Ids{0, 1});
  params.order = {temperature, top_p};
  CHECK(left_of(params, logits) == Ids{0, 1, 2});
  params.order = {temperature};
  CHECK(left_of(params, logits).size() == 4);
  params.order = {};
  Sampler sampler(params, 4);
  sampler.sample(logits);
  CHECK(probability_of(sampler, 0) == doctest::Approx(0.5));
  CHECK(sampler.params().temp == 1);

  params = plain_sampling();
  params.presence_penalty = 100;
  params.top_k = 2;
  params.order = {top_k, penalties};
  Sampler late(params, 4);
  late.accept(0);
  CHECK(late.sample(logits) == 1);
  CHECK(late.candidates().size() == 2);
  params.temp = 0;
  params.order = {top_k, penalties, temperature};
  Sampler greedy(params, 4);
  greedy.accept(0);
  CHECK(greedy.sample(logits) == 1);
}

TEST_CASE("the chain draws what the usual way draws") {
  std::vector<float> logits(300);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(uniform(5, i) * 12);
  SamplerParams usual;
  usual.seed = 11;
  usual.typical_p = 0.9f;
  usual.repeat_penalty = 1.2f;
  SamplerParams chain = usual;
  chain.xtc_probability = 1e-30f; // on, never triggers, but draws its random number
  CHECK(is_usual(usual));
  CHECK_FALSE(is_usual(chain));
  Sampler a(usual, 300), b(chain, 300);
  for (int i = 0; i < 50; ++i) {
    const int32_t token = a.sample(logits);
    b.sample(logits);
    REQUIRE(a.candidates().size() == b.candidates().size());
    for (size_t j = 0; j < a.candidates().size(); ++j) {
      CHECK(a.candidates()[j].token == b.candidates()[j].token);
      CHECK(a.candidates()[j].probability == b.candidates()[j].probability);
    }
    a.accept(token), b.accept(token);
  }
}

TEST_CASE("executors are given only what they have") {
  SamplerParams params;
  CHECK(is_usual(params));
  params.order = {top_k, temperature};
  CHECK(is_usual(without_unnamed(params)));
  params.order = {temperature, top_k};
  CHECK_FALSE(is_usual(without_unnamed(params)));
  for (const auto& set : std::initializer_list<void (*)(SamplerParams&)>{
           [](SamplerParams& p) { p.dry.multiplier = 1; }, [](SamplerParams& p) { p.top_n_sigma = 1; },
           [](SamplerParams& p) { p.xtc_probability = 1; }, [](SamplerParams& p) { p.mirostat = 1; },
           [](SamplerParams& p) { p.dynatemp_range = 1; }, [](SamplerParams& p) { p.adaptive_target = 0; },
           [](SamplerParams& p) { p.min_keep = 2; }, [](SamplerParams& p) { p.order.push_back(infill); }}) {
    SamplerParams one;
    set(one);
    CHECK_FALSE(is_usual(one));
  }
}

TEST_CASE("an order is read from names and from letters") {
  CHECK(parse_order("top_k;temperature", "f") == SamplerOrder{top_k, temperature});
  CHECK(parse_order("top-k;;nucleus;typical_p;temp", "f") == SamplerOrder{top_k, top_p, typ_p, temperature});
  CHECK(parse_order_letters("edskypmxta", "f") == usual_order());
  CHECK(parse_order(order_text(usual_order()), "f") == usual_order());
  CHECK(parse_order("", "f").empty());
  const auto message = [](const auto& parse) -> std::string {
    try {
      parse();
      return "";
    } catch (const ridge::Error& error) {
      return error.what();
    }
  };
  CHECK(message([] {
          parse_order("top_k;warp\n", "--samplers");
        }).starts_with("--samplers: unknown sampler \"warp\\x0a\""));
  CHECK(message([] { parse_order("top_k;top-k", "--samplers"); }) == "--samplers: top_k is listed twice");
  CHECK(message([] {
          parse_order_letters("kz", "--sampler-seq");
        }).starts_with("--sampler-seq: unknown sampler letter \"z\""));
}
