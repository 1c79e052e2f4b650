// The session with an executor that chooses tokens itself and runs one ahead: the same answers, the same cache, the
// same reasons to stop as with one that leaves the choice to the host.
#include "engine/sequences/session.h"

#include "core/error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

using namespace ridge;
using engine::Session;
using engine::StopReason;

namespace {

constexpr int32_t kTokens = 100, kContext = 40, kLastToken = 30;

// A model whose next token is the sum of the last two plus one. It checks that its cache is used as it may be.
class Chain final : public core::Executor {
 public:
  explicit Chain(bool decodes) : decodes_(decodes) {
    config_.context = kContext;
    config_.max_batch = 8;
    config_.max_outputs = 1;
  }

  void forward(const core::Batch& batch) override {
    decoding_ = false;
    for (size_t i = 0; i < batch.tokens.size(); ++i) evaluate(batch.tokens[i], batch.positions[i]);
    forwards += std::ssize(batch.tokens);
  }
  std::span<const float> logits(int64_t) override {
    logits_.assign(kTokens, 0.0f);
    logits_[next()] = 10;
    return logits_;
  }
  bool start_decoding(const core::Sampler& sampler, int32_t position, int32_t) override {
    if (position != std::ssize(cache_)) throw std::logic_error("decoding from another position");
    decoding_ = decodes_ && sampler.params().temp == 0;
    chosen_ = next();
    return decoding_;
  }
  int32_t next_token(bool ahead) override {
    if (!decoding_) throw std::logic_error("next_token() without decoding");
    const int32_t token = chosen_;
    if (ahead) {
      evaluate(token, static_cast<int32_t>(cache_.size()));
      chosen_ = broken_at == std::ssize(cache_) ? -1 : next();
    }
    decoding_ = ahead;
    ++chosen;
    return token;
  }
  const core::ExecutorConfig& config() const override { return config_; }
  std::string_view description() const override { return "chain"; }
  double memory_bytes() const override { return 0; }

  int64_t forwards = 0, chosen = 0, broken_at = -1;

 private:
  void evaluate(int32_t token, int32_t position) {
    if (position >= kContext || position > std::ssize(cache_)) throw std::logic_error("a position out of turn");
    cache_.resize(position);
    cache_.push_back(token);
  }
  int32_t next() const {
    const int32_t last = cache_.back(), before = cache_.size() > 1 ? cache_[cache_.size() - 2] : 0;
    return (last + before + 1) % kTokens;
  }

  core::ExecutorConfig config_;
  const bool decodes_;
  bool decoding_ = false;
  int32_t chosen_ = 0;
  std::vector<int32_t> cache_;
  std::vector<float> logits_;
};

core::SamplerParams greedy() {
  core::SamplerParams params;
  params.temp = 0;
  return params;
}

struct Outcome {
  StopReason stop;
  std::vector<int32_t> tokens, seen;
  bool operator==(const Outcome&) const = default;
};

// Two answers in one conversation.
std::vector<Outcome> converse(Chain& chain, Session::Options options) {
  core::Program program;
  program.vocab = kTokens;
  Session session(chain, program);
  core::Sampler sampler(greedy(), kTokens);
  std::vector<Outcome> outcomes;
  std::vector<int32_t> prompt = {3, 1, 4};
  for (int turn = 0; turn < 2; ++turn) {
    Outcome outcome = {};
    options.on_token = [&, stop = options.on_token](int32_t token) {
      outcome.seen.push_back(token);
      return !stop || stop(token);
    };
    session.evaluate(prompt);
    outcome.stop = session.generate(sampler, options);
    outcome.tokens.assign(session.tokens().begin(), session.tokens().end());
    outcomes.push_back(outcome);
    prompt = outcome.tokens;
    prompt.push_back(5);
    if (std::ssize(prompt) > kContext) break;
  }
  return outcomes;
}

void check_same(const Session::Options& options, StopReason first_stop) {
  Chain host(false), device(true);
  const std::vector<Outcome> expected = converse(host, options), outcomes = converse(device, options);
  CHECK(expected[0].stop == first_stop);
  CHECK(outcomes == expected);
  CHECK(host.chosen == 0);
  CHECK(device.chosen > 0);
}

} // namespace

TEST_CASE("a session whose executor decodes on its own stops where and why any other does") {
  SUBCASE("a limit") { check_same({.limit = 7}, StopReason::limit); }
  SUBCASE("one token") { check_same({.limit = 1}, StopReason::limit); }
  SUBCASE("a full context") { check_same({}, StopReason::context_full); }
  SUBCASE("an end of turn") {
    check_same({.is_end = [](int32_t token) { return token % 7 == 0; }}, StopReason::end_of_turn);
  }
  SUBCASE("a stop string") {
    check_same({.limit = 20, .on_token = [](int32_t token) { return token % 5 != 0; }}, StopReason::stopped);
  }
}

TEST_CASE("a turn that follows evaluates only what the executor has not evaluated ahead") {
  Chain chain(true);
  core::Program program;
  program.vocab = kTokens;
  Session session(chain, program);
  core::Sampler sampler(greedy(), kTokens);
  session.evaluate(std::vector<int32_t>{3, 1, 4});
  session.generate(sampler, {.limit = 10, .on_token = [n = 0](int32_t) mutable { return ++n < 6; }});
  REQUIRE(session.tokens().size() == 9);
  std::vector<int32_t> longer(session.tokens().begin(), session.tokens().end());
  longer.insert(longer.end(), {7, 8});
  chain.forwards = 0;
  session.evaluate(longer);
  CHECK(chain.forwards == 2); // also the token at which it stopped is in the cache
}

TEST_CASE("what an executor cannot sample, and what a mask restricts, is sampled by the host") {
  struct Odd final : core::TokenMask {
    bool allows(int32_t token) override { return token % 2 == 1; }
    void apply(std::span<float> logits) override {
      for (size_t i = 0; i < logits.size(); i += 2) logits[i] = -INFINITY;
    }
  } odd;
  Chain masked(true), warm(true);
  for (const Outcome& outcome : converse(masked, {.limit = 5, .mask = &odd}))
    for (const int32_t token : outcome.seen) CHECK(token % 2 == 1);
  CHECK(masked.chosen == 0);

  core::Program program;
  program.vocab = kTokens;
  Session session(warm, program);
  core::Sampler sampler({.seed = 1}, kTokens);
  session.evaluate(std::vector<int32_t>{1});
  session.generate(sampler, {.limit = 3});
  CHECK(warm.chosen == 0);
}

TEST_CASE("logits that are no numbers end a decoding executor's answer with an error") {
  Chain chain(true);
  chain.broken_at = 6;
  core::Program program;
  program.vocab = kTokens;
  Session session(chain, program);
  core::Sampler sampler(greedy(), kTokens);
  session.evaluate(std::vector<int32_t>{3, 1, 4});
  CHECK_THROWS_AS(session.generate(sampler, {.limit = 10}), Error);
}
