// Sequences of a scheduler that guesses while one generates alone: each returns what it returns without guesses, alone
// or among others, joined or cancelled in the middle.
#include "engine/sequences/scheduler.h"

#include "core/random.h"
#include "engine/speculation/ngram_drafter.h"
#include "support/history_executor.h"
#include "support/numerics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

using namespace ridge;
using engine::Scheduler;
using engine::Sequence;
using engine::SequenceRequest;
using engine::StopReason;
using tests::History;

namespace {

constexpr int32_t kVocab = 101;

// Knows what a History goes on with, and says so as often as it is told to.
class HistoryDrafter final : public engine::Drafter {
 public:
  HistoryDrafter(double right, uint64_t seed) : right_(right), seed_(seed) {}

  void begin(std::span<const int32_t> tokens) override {
    tokens_.clear();
    state_ = 0;
    look(tokens);
  }
  int look(std::span<const int32_t> tokens) override {
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

std::unique_ptr<engine::Speculator> speculator(double right, uint64_t seed, int64_t length) {
  return std::make_unique<engine::Speculator>(std::make_unique<HistoryDrafter>(right, seed), length);
}

// Allows the tokens whose sum with the one before is no multiple of three.
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
  bool ends = false, constrained = false, keeps_choices = false;

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
    return question;
  }
  SequenceRequest request() const {
    SequenceRequest request;
    request.prompt = prompt;
    request.sampling = sampling;
    request.limit = limit;
    if (ends) request.is_end = [](int32_t token) { return token % 20 == 7; };
    if (constrained) request.constraint = std::make_unique<NoThirds>();
    request.keep_choices = keeps_choices;
    return request;
  }
};

struct Reply {
  std::vector<int32_t> tokens;
  std::vector<float> probabilities;
  StopReason stop = StopReason::interrupted;
  int64_t usage_tokens = 0;

  // Takes the rest of a sequence; cancels it behind so many tokens.
  static Reply of(Sequence& sequence, size_t cancel_behind = SIZE_MAX) {
    Reply reply;
    while (const auto token = sequence.next()) {
      reply.tokens.push_back(token->id);
      if (token->choice) reply.probabilities.push_back(token->choice->probability);
      if (reply.tokens.size() == cancel_behind) sequence.cancel();
    }
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

} // namespace

TEST_CASE("a sequence alone returns with guesses what it returns without") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    History::Settings settings{.streams = 1 + static_cast<int64_t>(random() % 3),
                               .context = 40 + static_cast<int64_t>(random() % 100),
                               .max_batch = 4 + static_cast<int64_t>(random() % 24),
                               .recurrent = random() % 2 == 0,
                               .decodes = random() % 2 == 0};
    settings.outputs = settings.streams + static_cast<int64_t>(random() % 16);
    std::vector<Question> questions;
    for (int i = 0; i < 8; ++i) questions.push_back(Question::random(random, 20));
    const auto replies = [&](std::unique_ptr<engine::Speculator> speculator, Scheduler::Counts& counts) {
      History executor(settings);
      Scheduler scheduler(executor, executor.program, std::move(speculator));
      std::vector<Reply> all;
      for (const Question& question : questions) all.push_back(Reply::of(*scheduler.submit(question.request())));
      counts = scheduler.counts();
      return all;
    };
    Scheduler::Counts plain, counts;
    const std::vector<Reply> expected = replies(nullptr, plain);
    CHECK(plain.guesses_made == 0);
    for (const double right : {0.0, 0.5, 0.9, 1.0}) {
      CAPTURE(right);
      const int64_t length = static_cast<int64_t>(random() % 16);
      const std::vector<Reply> guessed = replies(speculator(right, random(), length), counts);
      CHECK(guessed == expected);
      CHECK(counts.generated_tokens == plain.generated_tokens);
      CHECK(counts.guesses_right <= counts.guesses_made);
      if (length > 0 && settings.outputs > 1 && plain.generated_tokens > 40) CHECK(counts.guesses_made > 0);
    }
    auto ngrams = std::make_unique<engine::Speculator>(std::make_unique<engine::NgramDrafter>(), 5);
    CHECK(replies(std::move(ngrams), counts) == expected);
  }
}

TEST_CASE("sequences that come and go return what each returns without guesses") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const bool recurrent : {false, true})
    for (const bool decodes : {false, true}) {
      CAPTURE(recurrent);
      CAPTURE(decodes);
      const History::Settings settings{
          .streams = 3, .context = 100, .recurrent = recurrent, .decodes = decodes, .outputs = 9};
      History reference(settings), executor(settings);
      Scheduler plain(reference, reference.program), scheduler(executor, executor.program, speculator(0.8, seed, 5));
      std::vector<std::thread> clients;
      std::atomic<int> wrong = 0;
      std::mutex one_by_one; // of the reference
      for (uint64_t client = 0; client < 3; ++client)
        clients.emplace_back([&, client] {
          std::mt19937_64 random(seed + client);
          for (int turn = 0; turn < 60; ++turn) {
            Question question = Question::random(random, 30);
            if (decodes) { // a History chooses the likeliest token, whatever the parameters are
              question.sampling.temp = 0;
              question.sampling.repeat_penalty = 1;
            }
            const size_t cancel_behind = random() % 4 == 0 ? random() % 20 : SIZE_MAX;
            Reply expected;
            {
              const std::scoped_lock lock(one_by_one);
              expected = Reply::of(*plain.submit(question.request()));
            }
            if (random() % 2) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
            const auto sequence = scheduler.submit(question.request());
            if (cancel_behind == 0) sequence->cancel();
            const Reply reply = Reply::of(*sequence, cancel_behind);
            const bool part =
                cancel_behind != SIZE_MAX && reply.stop == StopReason::interrupted && reply.begins(expected);
            if (reply != expected && !part) ++wrong;
          }
        });
      for (std::thread& client : clients) client.join();
      CHECK(wrong == 0);
      const Scheduler::Counts counts = scheduler.counts();
      CHECK(counts.ended == 180);
      CHECK(counts.guesses_right > 0);
      CHECK(counts.guesses_right < counts.guesses_made);
    }
}

TEST_CASE("another sequence that joins ends the guesses, which go on when it has ended") {
  for (const bool decodes : {false, true}) {
    CAPTURE(decodes);
    History executor({.streams = 2, .context = 1 << 20, .max_batch = 32, .decodes = decodes, .outputs = 16});
    auto drafter = std::make_unique<HistoryDrafter>(1, 1);
    const std::atomic<int64_t>& drafts = drafter->drafts;
    Scheduler scheduler(executor, executor.program, std::make_unique<engine::Speculator>(std::move(drafter), 7));
    Question question;
    question.prompt = {1, 2, 3};
    question.sampling.temp = 0;
    const auto running = scheduler.submit(question.request());
    while (drafts == 0) REQUIRE(running->next());
    const auto joins = scheduler.submit(question.request());
    REQUIRE(joins->next());
    const int64_t until_then = drafts;
    for (int i = 0; i < 1000; ++i) REQUIRE(joins->next());
    CHECK(drafts == until_then);
    joins->cancel();
    CHECK(Reply::of(*joins).stop == StopReason::interrupted);
    CHECK(joins->guesses().steps == 0); // it was never alone
    while (drafts == until_then) REQUIRE(running->next());
    running->cancel();
    CHECK(Reply::of(*running).stop == StopReason::interrupted);
    CHECK(running->guesses().all_right() == running->guesses().all_made());
  }
}

TEST_CASE("guesses that are right save steps of the scheduler") {
  History executor({.streams = 4, .context = 2000, .max_batch = 32, .outputs = 16});
  Scheduler scheduler(executor, executor.program, speculator(1, 1, 7));
  Question question;
  question.prompt = {1, 2, 3};
  question.sampling.temp = 0;
  question.limit = 801;
  const auto sequence = scheduler.submit(question.request());
  CHECK(Reply::of(*sequence).tokens.size() == 801);
  CHECK(sequence->generation_usage().tokens == 800);
  CHECK(scheduler.counts().steps == 101);
  CHECK(sequence->guesses().all_right() == 700);
  // The next turn finds all of it but for the last token, which nobody evaluated.
  question.prompt.assign(sequence->tokens().begin(), sequence->tokens().end());
  question.prompt.insert(question.prompt.end(), {5, 6});
  question.limit = 1;
  const auto next = scheduler.submit(question.request());
  CHECK(Reply::of(*next).tokens.size() == 1);
  CHECK(next->cached_tokens() == 803);
}
