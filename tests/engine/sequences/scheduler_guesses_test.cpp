// Drafts in a scheduler leave answers unchanged.
#include "engine/sequences/scheduler.h"

#include "engine/sequences/questions.h"
#include "engine/speculation/ngram_drafter.h"
#include "support/history_executor.h"
#include "support/numerics.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>

using namespace ridge;
using engine::Scheduler;
using engine::Sequence;
using engine::StopReason;
using tests::History;
using tests::HistoryDrafter;
using tests::Question;
using tests::Reply;

namespace {

std::unique_ptr<engine::Speculator> speculator(double right, uint64_t seed, int64_t length) {
  return std::make_unique<engine::Speculator>(std::make_unique<HistoryDrafter>(right, seed), length);
}

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
      std::mutex one_by_one;
      for (uint64_t client = 0; client < 3; ++client)
        clients.emplace_back([&, client] {
          std::mt19937_64 random(seed + client);
          for (int turn = 0; turn < 60; ++turn) {
            Question question = Question::random(random, 30);
            if (decodes) { // a History that samples itself is greedy
              question.sampling.temp = 0;
              question.sampling.repeat_penalty = 1;
            }
            const size_t cancel_behind = random() % 4 == 0 ? random() % 20 : SIZE_MAX;
            Reply expected;
            {
              const std::scoped_lock lock(one_by_one);
              expected = Reply::of(*plain.submit(question.request()));
            }
            for (uint64_t turns = random() % 200; turns > 0; --turns) std::this_thread::yield();
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
    CHECK(joins->guesses().steps == 0);
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
  // The next turn finds all but the last token, which is not evaluated.
  question.prompt.assign(sequence->tokens().begin(), sequence->tokens().end());
  question.prompt.insert(question.prompt.end(), {5, 6});
  question.limit = 1;
  const auto next = scheduler.submit(question.request());
  CHECK(Reply::of(*next).tokens.size() == 1);
  CHECK(next->cached_tokens() == 803);
}
