// Random questions over a History.
#pragma once

#include "core/error.h"
#include "core/random.h"
#include "engine/sequences/sequence.h"
#include "support/history_executor.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

namespace ridge::tests {

inline constexpr int32_t kVocab = 101;

// Knows the answer; right with a given probability.
class HistoryDrafter final : public engine::Drafter {
 public:
  HistoryDrafter(double right, uint64_t seed) : right_(right), seed_(seed) {}

  void begin(std::span<const int32_t> tokens) override {
    tokens_.clear();
    state_ = 0;
    prepare_draft(tokens);
  }
  int prepare_draft(std::span<const int32_t> tokens) override {
    if (tokens.size() < tokens_.size() || !std::ranges::equal(tokens.first(tokens_.size()), tokens_))
      throw std::logic_error("another text without begin()");
    for (const int32_t token : tokens.subspan(tokens_.size())) state_ = History::after(state_, token);
    tokens_.assign(tokens.begin(), tokens.end());
    return static_cast<int>(tokens.size() % engine::kDraftKinds);
  }
  std::vector<int32_t> draft(int64_t most) override {
    ++drafts;
    std::vector<int32_t> guesses;
    for (uint64_t state = state_; std::ssize(guesses) < most; state = History::after(state, guesses.back())) {
      const int32_t next = History::next_of(state, kVocab);
      guesses.push_back(core::uniform(seed_, draws_++) < right_ ? next : (next + 1) % kVocab);
    }
    return guesses;
  }

  std::atomic<int64_t> drafts = 0;

 private:
  const double right_;
  const uint64_t seed_;
  uint64_t draws_ = 0, state_ = 0;
  std::vector<int32_t> tokens_;
};

// Allows a token if its sum with the previous one is no multiple of three.
class NoThirds final : public engine::Constraint {
 public:
  bool allows(int32_t token) override { return (token + last_) % 3 != 0; }
  void apply(std::span<float> logits) override {
    for (int32_t token = 0; token < std::ssize(logits); ++token)
      if (!allows(token)) logits[token] = -INFINITY;
  }
  void accept(int32_t token) override {
    if (!allows(token)) throw Error("that token is not allowed");
    last_ = token;
  }

 private:
  int32_t last_ = 1;
};

struct Question {
  std::vector<int32_t> prompt;
  core::SamplerParams sampling;
  int64_t limit = -1;
  bool ends = false, constrained = false, keeps_choices = false, asks_prompt = false, reuses = true;

  static Question random(std::mt19937_64& random, uint64_t longest) {
    Question question;
    question.prompt.resize(1 + random() % longest);
    for (int32_t& token : question.prompt) token = static_cast<int32_t>(random() % kVocab);
    question.sampling.temp = random() % 2 ? 0.0f : 3.0f;
    question.sampling.seed = static_cast<int64_t>(random() % 1000);
    if (random() % 2) question.sampling.repeat_penalty = 1.3f;
    if (random() % 2) question.limit = static_cast<int64_t>(random() % 50);
    question.ends = random() % 2;
    question.constrained = random() % 3 == 0;
    question.keeps_choices = random() % 4 == 0;
    question.asks_prompt = question.keeps_choices && question.prompt.size() % 2 == 0;
    question.reuses = question.prompt.size() % 7 != 0;
    return question;
  }
  engine::SequenceRequest request() const {
    engine::SequenceRequest request;
    request.prompt = prompt;
    request.sampling = sampling;
    request.limit = limit;
    if (ends) request.is_end = [](int32_t token) { return token % 20 == 7; };
    if (constrained) request.constraint = std::make_unique<NoThirds>();
    request.keep_choices = keeps_choices;
    request.keep_prompt_choices = asks_prompt;
    request.reuse = reuses;
    return request;
  }
};

struct Reply {
  std::vector<int32_t> tokens, of_prompt; // of_prompt: likeliest per place
  std::vector<float> probabilities;
  engine::StopReason stop = engine::StopReason::interrupted;
  int64_t usage_tokens = 0;

  static Reply of(engine::Sequence& sequence, size_t cancel_behind = SIZE_MAX) {
    Reply reply;
    while (const auto token = sequence.next()) {
      reply.tokens.push_back(token->id);
      if (token->choice) reply.probabilities.push_back(token->choice->probability());
      if (reply.tokens.size() == cancel_behind) sequence.cancel();
    }
    for (const core::TokenChoice& choice : sequence.prompt_choices()) reply.of_prompt.push_back(choice.top[0].token);
    reply.stop = sequence.stop();
    reply.usage_tokens = sequence.generation_usage().tokens;
    return reply;
  }
  bool operator==(const Reply&) const = default;
  bool begins(const Reply& whole) const {
    return tokens.size() <= whole.tokens.size() &&
           std::ranges::equal(tokens, std::span(whole.tokens).first(tokens.size()));
  }
};

} // namespace ridge::tests
