// Sampling in the executor, one token ahead, must equal sampling on the host.
#include "engine/sequences/session.h"

#include "core/error.h"
#include "support/http/requests.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <functional>
#include <stdexcept>

using namespace ridge;
using engine::Session;
using engine::StopReason;
using tests::request_of;

namespace {

constexpr int32_t kTokens = 100, kContext = 40, kLastToken = 30;

// Next token: sum of the last two plus one.
class Chain final : public core::Executor {
 public:
  explicit Chain(bool decodes) : decodes_(decodes) {
    config_.context = kContext;
    config_.max_batch = 8;
    config_.max_outputs = 1;
  }

  void submit(const core::Batch& batch, const core::Choosing& choosing) override {
    const bool resumes = choosing.chain == core::Chain::resume, follows = batch.tokens[0] == core::kChosenToken;
    if (!resumes) unread_.clear();
    if (resumes && (!chains_ || follows == unread_.empty())) throw std::logic_error("a chain resumes out of turn");
    for (size_t i = 0; i < batch.tokens.size(); ++i)
      evaluate(follows ? unread_.back() : batch.tokens[i], batch.positions[i]);
    if (!resumes) forwards += std::ssize(batch.tokens);
    chains_ = choosing.chain != core::Chain::none;
    if (chains_) unread_.push_back(resumes && broken_at == std::ssize(cache_) ? -1 : next());
  }
  std::span<const int32_t> wait() override {
    if (!chains_) return {};
    token_ = unread_.at(0);
    unread_.pop_front();
    ++chosen;
    return {&token_, 1};
  }
  bool can_chain(const core::SamplerParams& params) const override { return decodes_ && params.temp == 0; }
  std::span<const float> logits(int64_t) override {
    logits_.assign(kTokens, 0.0f);
    logits_[next()] = 10;
    return logits_;
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
  bool chains_ = false;
  std::deque<int32_t> unread_;
  int32_t token_ = 0;
  std::vector<int32_t> cache_;
  std::vector<float> logits_;
};

struct Outcome {
  StopReason stop;
  std::vector<int32_t> tokens, seen;
  bool operator==(const Outcome&) const = default;
};

struct ChainTalk {
  explicit ChainTalk(bool decodes) : chain(decodes) { program.vocab = kTokens; }

  Outcome answer(engine::SequenceRequest request, const std::function<bool(int32_t)>& goes_on = {}) {
    Outcome outcome = {};
    request.on_token = [&](const engine::Token& token) {
      outcome.seen.push_back(token.id);
      return !goes_on || goes_on(token.id);
    };
    outcome.stop = session.generate(std::move(request));
    outcome.tokens.assign(session.tokens().begin(), session.tokens().end());
    return outcome;
  }

  Chain chain;
  core::Program program;
  Session session{chain, program};
};

struct Options {
  int64_t limit = -1;
  std::function<bool(int32_t)> is_end = {}, goes_on = {};
};

std::vector<Outcome> converse(ChainTalk& talk, const Options& options) {
  std::vector<Outcome> outcomes;
  std::vector<int32_t> prompt = {3, 1, 4};
  for (int turn = 0; turn < 2 && std::ssize(prompt) <= kContext; ++turn) {
    engine::SequenceRequest request = request_of(prompt, options.limit);
    request.is_end = options.is_end;
    outcomes.push_back(talk.answer(std::move(request), options.goes_on));
    prompt = outcomes.back().tokens;
    prompt.push_back(5);
  }
  return outcomes;
}

void check_same(const Options& options, StopReason first_stop) {
  ChainTalk host(false), device(true);
  const std::vector<Outcome> expected = converse(host, options), outcomes = converse(device, options);
  CHECK(expected[0].stop == first_stop);
  CHECK(outcomes == expected);
  CHECK(host.chain.chosen == 0);
  CHECK(device.chain.chosen > 0);
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
    check_same({.limit = 20, .goes_on = [](int32_t token) { return token % 5 != 0; }}, StopReason::stopped);
  }
}

TEST_CASE("a turn that follows evaluates only what the executor has not evaluated ahead") {
  ChainTalk talk(true);
  std::vector<int32_t> longer =
      talk.answer(request_of(std::vector{3, 1, 4}, 10), [n = 0](int32_t) mutable { return ++n < 6; }).tokens;
  REQUIRE(longer.size() == 9);
  longer.insert(longer.end(), {7, 8});
  talk.chain.forwards = 0;
  talk.session.evaluate(longer);
  CHECK(talk.chain.forwards == 2); // with the token at which it stopped
}

TEST_CASE("what an executor cannot sample, and what a constraint restricts, is sampled by the host") {
  struct Odd final : engine::Constraint {
    bool allows(int32_t token) override { return token % 2 == 1; }
    void apply(std::span<float> logits) override {
      for (size_t i = 0; i < logits.size(); i += 2) logits[i] = -INFINITY;
    }
    void accept(int32_t) override {}
  };
  ChainTalk restricted(true), warm(true);
  std::vector<int32_t> prompt = {3, 1, 4};
  for (int turn = 0; turn < 2; ++turn) {
    engine::SequenceRequest request = request_of(prompt, 5);
    request.constraint = std::make_unique<Odd>();
    const Outcome outcome = restricted.answer(std::move(request));
    CHECK(outcome.seen.size() == 5);
    for (const int32_t token : outcome.seen) CHECK(token % 2 == 1);
    prompt = outcome.tokens;
  }
  CHECK(restricted.chain.chosen == 0);

  warm.answer(request_of(std::vector{1}, 3, {.seed = 1, .bias = {}}));
  CHECK(warm.chain.chosen == 0);
}

TEST_CASE("logits that are no numbers end a decoding executor's answer with an error") {
  ChainTalk talk(true);
  talk.chain.broken_at = 6;
  CHECK_THROWS_AS(talk.answer(request_of(std::vector{3, 1, 4}, 10)), Error);
}

TEST_CASE("an answer is cut by a flag, by what takes its tokens, and by an error there, and the next one is whole") {
  for (const bool decodes : {false, true}) {
    CAPTURE(decodes);
    const std::vector<int32_t> prompt = {3, 1, 4};
    ChainTalk untouched(decodes), talk(decodes);
    const Outcome whole = untouched.answer(request_of(prompt, 20));
    std::atomic<bool> cancel = true;
    CHECK(!talk.session.evaluate(prompt, &cancel));
    cancel = false;
    engine::SequenceRequest request = request_of(prompt, 20);
    int64_t seen = 0;
    request.on_token = [&](const engine::Token&) {
      cancel = ++seen == 4;
      return true;
    };
    CHECK(talk.session.generate(std::move(request), &cancel) == StopReason::interrupted);
    CHECK(seen == 4);
    CHECK(talk.session.tokens().size() == 7);
    CHECK_THROWS_WITH_AS(talk.answer(request_of(prompt, 20),
                                     [n = 0](int32_t) mutable -> bool {
                                       if (++n == 3) throw Error("no room on the disk");
                                       return true;
                                     }),
                         "no room on the disk", Error);
    CHECK(talk.answer(request_of(prompt, 20)) == whole);
  }
}
