// Preemption: unchanged answers, no starvation, priorities.
#include "engine/sequences/questions.h"
#include "engine/sequences/scheduler.h"
#include "kernels/cpu/executor/executor.h"
#include "support/history_executor.h"
#include "support/numerics.h"
#include "support/recipes/turn_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>

using namespace ridge;
using engine::PrefixSettings;
using engine::Scheduler;
using engine::Sequence;
using engine::SequenceRequest;
using engine::StopReason;
using engine::Turn;
using engine::TurnPolicy;
using engine::Turns;
using tests::History;
using tests::Question;
using tests::Reply;

namespace {

constexpr double kNever = 1e9; // seconds
const PrefixSettings kRoom = {.bytes = 1 << 24}, kLittleRoom = {.bytes = 12000};

SequenceRequest endless(int32_t token, int64_t priority = 0) {
  SequenceRequest request;
  request.prompt = {1, 2, token};
  request.sampling.temp = 0;
  request.priority = priority;
  return request;
}

SequenceRequest limited(int32_t token, int64_t limit, int64_t priority = 0) {
  SequenceRequest request = endless(token, priority);
  request.limit = limit;
  return request;
}

// Copies fail from its first token on.
SequenceRequest breaking_copies(History& executor) {
  SequenceRequest request = limited(4, 30);
  request.is_end = [&executor](int32_t) {
    executor.copies_break = true;
    return false;
  };
  return request;
}

} // namespace

TEST_CASE("turns: sequences that are preempted return what each returns alone") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  int64_t preemptions = 0;
  for (int round = 0; round < 24; ++round) {
    CAPTURE(round);
    History::Settings settings{.streams = 1 + static_cast<int64_t>(random() % 3),
                               .context = 100,
                               .max_batch = 4 + static_cast<int64_t>(random() % 24),
                               .recurrent = round % 3 == 1,
                               .rewind_tokens = round % 3 == 2 ? 20 : 0,
                               .decodes = random() % 2 == 0};
    settings.outputs = settings.streams + static_cast<int64_t>(random() % 8);
    constexpr size_t kClients = 5, kEach = 15;
    const std::vector<int32_t> common = Question::random(random, 40).prompt;
    std::vector<Question> questions;
    std::vector<Reply> alone;
    {
      History executor(settings);
      Scheduler scheduler(executor, executor.program);
      for (size_t i = 0; i < kClients * kEach; ++i) {
        questions.push_back(Question::random(random, 40));
        if (random() % 2) questions[i].prompt.insert(questions[i].prompt.begin(), common.begin(), common.end());
        if (settings.decodes) { // a History that samples itself is greedy
          questions[i].sampling.temp = 0;
          questions[i].sampling.repeat_penalty = 1;
        }
        alone.push_back(Reply::of(*scheduler.submit(questions[i].request())));
      }
    }
    History executor(settings);
    std::unique_ptr<engine::Speculator> speculator;
    if (random() % 2)
      speculator = std::make_unique<engine::Speculator>(std::make_unique<tests::HistoryDrafter>(0.8, seed), 3);
    // Every step preempts; after a millisecond any waiting sequence gets a stream. Little room causes evictions.
    Scheduler scheduler(executor, executor.program, std::move(speculator), random() % 2 ? kRoom : kLittleRoom,
                        {.seconds = 0, .patience = random() % 2 ? 1e-3 : kNever, .share = 1});
    std::atomic<int64_t> wrong = 0, evaluated_again = 0, lost = 0;
    std::vector<std::thread> clients;
    for (size_t client = 0; client < kClients; ++client)
      clients.emplace_back([&, client] {
        std::mt19937_64 own(seed + 31 * round + client);
        for (size_t i = client * kEach; i < (client + 1) * kEach; ++i) {
          SequenceRequest request = questions[i].request();
          request.priority = static_cast<int64_t>(own() % 3) - 1;
          if (own() % 3 == 0) request.stream = static_cast<int32_t>(own() % settings.streams);
          const auto sequence = scheduler.submit(std::move(request));
          const size_t cancel_behind = own() % 5 == 0 ? 1 + own() % 20 : SIZE_MAX;
          const Reply reply = Reply::of(*sequence, cancel_behind);
          const bool part =
              cancel_behind != SIZE_MAX && reply.stop == StopReason::interrupted && reply.begins(alone[i]);
          if (reply != alone[i] && !part) ++wrong;
          const int64_t read = sequence->prompt_usage().tokens + sequence->cached_tokens();
          if (!part && read != std::ssize(questions[i].prompt)) ++evaluated_again;
          lost += sequence->times_preempted();
        }
      });
    for (std::thread& client : clients) client.join();
    CHECK(wrong == 0);
    CHECK(evaluated_again == 0);
    scheduler.drain();
    const Scheduler::Counts counts = scheduler.counts();
    CHECK(counts.preemptions == lost);
    CHECK(counts.ended == kClients * kEach);
    CHECK(counts.running == 0);
    CHECK(counts.waiting == 0);
    preemptions += lost;
  }
  CHECK(preemptions > 1000);
}

TEST_CASE("turns: a sequence that names its stream waits for it and holds up no other") {
  History executor({.streams = 2, .context = 1 << 20});
  Scheduler scheduler(executor, executor.program);
  const auto on = [](int32_t stream, SequenceRequest request) {
    request.stream = stream;
    return request;
  };
  const auto running = scheduler.submit(on(1, endless(3)));
  REQUIRE(running->next());
  CHECK(running->progress().stream == 1);
  const auto waiting = scheduler.submit(on(1, limited(4, 5)));
  for (int32_t i = 0; i < 3; ++i) CHECK(Reply::of(*scheduler.submit(limited(5 + i, 3))).tokens.size() == 3);
  CHECK(scheduler.counts().waiting == 1);
  running->cancel();
  CHECK(Reply::of(*waiting).tokens.size() == 5);
  CHECK(waiting->progress().stream == 1);
  CHECK_THROWS_AS(scheduler.submit(on(2, limited(8, 1))), Error);
}

TEST_CASE(
    "turns: a lower priority number takes the stream of a higher one at once, and an equal one waits for its turn") {
  for (const bool decodes : {false, true}) {
    CAPTURE(decodes);
    History executor({.streams = 1, .context = 1 << 20, .decodes = decodes});
    Scheduler scheduler(executor, executor.program, nullptr, kRoom, {.seconds = kNever, .patience = kNever});
    const auto running = scheduler.submit(endless(3, 5));
    REQUIRE(running->next());
    const auto equal = scheduler.submit(limited(4, 10, 5));
    for (int i = 0; i < 1000; ++i) REQUIRE(running->next());
    CHECK(scheduler.counts().waiting == 1);
    CHECK(scheduler.counts().preemptions == 0);
    const auto better = scheduler.submit(limited(5, 300, 4)), best = scheduler.submit(limited(6, 10, -7));
    CHECK(Reply::of(*best).tokens.size() == 10);
    CHECK(Reply::of(*better).tokens.size() == 300);
    CHECK(Reply::of(*equal).tokens.size() == 10); // it waited longer
    for (int i = 0; i < 1000; ++i) REQUIRE(running->next());
    running->cancel();
    CHECK(Reply::of(*running).stop == StopReason::interrupted);
    CHECK(running->times_preempted() >= 1);
    CHECK(equal->times_preempted() == 0);
    CHECK(best->times_preempted() == 0);
  }
}

TEST_CASE("turns: those of one priority go on in turns, and a higher number is not left waiting for ever") {
  for (const bool decodes : {false, true}) {
    CAPTURE(decodes);
    History executor({.streams = 2, .context = 1 << 24, .decodes = decodes});
    Scheduler scheduler(executor, executor.program, nullptr, kRoom, {.seconds = 1e-3, .patience = 0.02, .share = 1});
    std::vector<std::shared_ptr<Sequence>> sequences;
    for (int32_t i = 0; i < 5; ++i) sequences.push_back(scheduler.submit(endless(i)));
    sequences.push_back(scheduler.submit(endless(6, 9)));
    for (const auto& sequence : sequences)
      for (int token = 0; token < 300; ++token) REQUIRE(sequence->next());
    CHECK(scheduler.counts().preemptions > 0);
  }
}

TEST_CASE("turns: where what a sequence evaluated cannot be kept it keeps its stream") {
  for (const int64_t bytes : {int64_t{0}, int64_t{600}}) {
    CAPTURE(bytes);
    History executor({.streams = 1, .context = 1 << 20});
    Scheduler scheduler(executor, executor.program, nullptr, {.bytes = bytes},
                        {.seconds = 0, .patience = kNever, .share = 1});
    SequenceRequest request = limited(1, 200);
    request.prompt.resize(200, 4);
    const auto running = scheduler.submit(std::move(request));
    REQUIRE(running->next());
    const auto waiting = scheduler.submit(limited(2, 20, -1));
    CHECK(Reply::of(*running).tokens.size() == 199);
    CHECK(Reply::of(*waiting).tokens.size() == 20);
    CHECK(running->times_preempted() == 0);
    CHECK(scheduler.counts().stored_bytes <= bytes);
  }
}

TEST_CASE("turns: where copies break, what was preempted is evaluated again, and none loses its stream any more") {
  for (const int kind : {0, 1, 2})
    for (const bool before : {false, true}) {
      CAPTURE(kind);
      CAPTURE(before);
      const History::Settings settings{
          .streams = 1, .context = 1 << 20, .recurrent = kind == 1, .rewind_tokens = kind == 2 ? 20 : 0};
      History reference(settings), executor(settings);
      const Reply alone = [&] {
        Scheduler scheduler(reference, reference.program);
        return Reply::of(*scheduler.submit(limited(3, 400)));
      }();
      std::vector<std::string> lines;
      PrefixSettings prefixes = kRoom;
      prefixes.warn = [&](const std::string& line) { lines.push_back(line); };
      Scheduler scheduler(executor, executor.program, nullptr, prefixes, {.seconds = kNever, .patience = kNever});
      std::shared_ptr<Sequence> better;
      SequenceRequest request = limited(3, 400, 5);
      request.is_end = [&, count = 0](int32_t) mutable { // on the scheduler's thread, after the 50th token
        if (++count != 50) return false;
        executor.copies_break = before;
        better = scheduler.submit(breaking_copies(executor));
        return false;
      };
      const auto first = scheduler.submit(std::move(request));
      for (int i = 0; i < 50; ++i) REQUIRE(first->next());
      REQUIRE(better);
      CHECK(Reply::of(*better).tokens.size() == 30);
      const Reply rest = Reply::of(*first);
      CHECK(rest.tokens.size() == 350);
      CHECK(std::ranges::equal(rest.tokens, std::span(alone.tokens).last(350)));
      CHECK(first->times_preempted() == (before ? 0 : 1));
      CHECK(first->prompt_usage().tokens == (before ? 3 : 3 + 53));
      CHECK(lines == std::vector<std::string>{"the prefix cache is now off: no memory for copies"});
      CHECK_FALSE(scheduler.keeps_prefixes());
    }
}

TEST_CASE("turns: a sequence that was preempted at the context's end, and whose rows were lost, ends there") {
  History executor({.streams = 1, .context = 53});
  PrefixSettings prefixes = kRoom;
  prefixes.warn = [](const std::string&) {};
  Scheduler scheduler(executor, executor.program, nullptr, prefixes, {.seconds = kNever, .patience = kNever});
  std::shared_ptr<Sequence> better;
  SequenceRequest request = limited(3, 400, 5);
  request.is_end = [&, count = 0](int32_t) mutable { // no room after the 51st token
    if (++count != 51) return false;
    better = scheduler.submit(breaking_copies(executor));
    return false;
  };
  const auto first = scheduler.submit(std::move(request));
  const Reply reply = Reply::of(*first);
  REQUIRE(better);
  CHECK(Reply::of(*better).tokens.size() == 30);
  CHECK(reply.tokens.size() == 51);
  CHECK(reply.stop == engine::StopReason::context_full);
  CHECK(first->times_preempted() == 1);
}

TEST_CASE("turns: a scheduler that is destroyed ends what runs and what was preempted") {
  History executor({.streams = 2, .context = 1 << 20});
  std::vector<std::shared_ptr<Sequence>> sequences;
  {
    Scheduler scheduler(executor, executor.program, nullptr, kRoom, {.seconds = 0, .patience = kNever, .share = 1});
    for (int32_t i = 0; i < 5; ++i) sequences.push_back(scheduler.submit(endless(i)));
    while (scheduler.counts().preemptions < 20) std::this_thread::yield();
  }
  for (const auto& sequence : sequences) CHECK(Reply::of(*sequence).stop == StopReason::interrupted);
}

TEST_CASE("turns: those that have waited for long are let in one at a time, and exchanges take a share of the time") {
  TurnPolicy turns({.seconds = 5, .patience = 30, .share = 0.02});
  const engine::Waiting worse{.priority = 9, .since = 100, .number = 0}, equal{0, 100, 1};
  const Turn fresh{.start = 128}, old{.start = 90}, late{.start = 128, .late = true};
  CHECK(TurnPolicy::before(equal, worse));
  CHECK(!turns.is_late(worse, 129));
  CHECK(turns.is_late(worse, 131));
  CHECK(turns.takes(worse, true, old, 0, 131));
  CHECK(!turns.takes(worse, true, fresh, 0, 131));
  CHECK(!turns.takes(worse, false, old, 0, 131));
  turns.started(true, 131);
  CHECK(!turns.is_late(equal, 160));
  CHECK(turns.is_late(equal, 161));
  CHECK(turns.takes(equal, false, fresh, 1, 131));
  CHECK(!turns.takes(equal, false, late, 1, 131)); // until its turn ends
  CHECK(turns.takes(equal, false, late, 1, 133));
  CHECK(turns.takes(equal, false, old, 0, 131));
  CHECK(!turns.takes(equal, false, {.start = 90, .kept_until = 132}, 0, 131));
  turns.exchanged(0.1, 131);
  CHECK(!turns.takes(equal, false, old, 0, 135));
  CHECK(turns.takes(equal, false, old, 1, 135)); // higher priority does not wait
  CHECK(turns.takes(equal, false, old, 0, 136));
}

TEST_CASE("turns: tiny models say the same preempted as alone") {
  REQUIRE_REFERENCE();
  for (const char* name : {"llama-dense", "gemma3-dense", "qwen35-dense", "deepseek2-moe", "gpt-oss-moe"})
    tests::check_turns(kernels::cpu::make_cpu_executor, name);
}
