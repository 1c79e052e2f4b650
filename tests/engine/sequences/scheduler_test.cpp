// Tokens depend on all earlier ones, so that wrong caches, positions or streams change the answer.
#include "engine/sequences/scheduler.h"

#include "core/error.h"
#include "kernels/cpu/executor/executor.h"
#include "support/history_executor.h"
#include "support/numerics.h"
#include "support/sequences.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <future>
#include <numeric>
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

constexpr int32_t kVocab = 101, kEnd = 7;

int32_t next_of(uint64_t state) { return History::next_of(state, kVocab); }

struct Expected {
  std::vector<int32_t> tokens;
  StopReason stop;
};

Expected expected(const std::vector<int32_t>& prompt, int64_t limit, bool ends, int64_t context) {
  Expected answer;
  uint64_t state = 0;
  for (const int32_t token : prompt) state = History::after(state, token);
  for (int64_t length = std::ssize(prompt);; ++length) {
    answer.stop = StopReason::limit;
    if (std::ssize(answer.tokens) == limit) return answer;
    answer.stop = StopReason::context_full;
    if (length > context) return answer;
    const int32_t token = next_of(state);
    answer.stop = StopReason::end_of_turn;
    if (ends && token == kEnd) return answer;
    answer.tokens.push_back(token);
    state = History::after(state, token);
  }
}

SequenceRequest request_for(std::vector<int32_t> prompt, int64_t limit, bool ends = true) {
  SequenceRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temp = 0;
  request.limit = limit;
  if (ends) request.is_end = [](int32_t token) { return token == kEnd; };
  return request;
}

std::vector<int32_t> all(Sequence& sequence) {
  std::vector<int32_t> tokens;
  while (const auto token = sequence.next()) tokens.push_back(token->id);
  return tokens;
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint64_t below(uint64_t n) { return engine_() % n; }

 private:
  std::mt19937_64 engine_;
};

std::vector<int32_t> random_prompt(Random& random, uint64_t longest) {
  std::vector<int32_t> prompt(1 + random.below(longest));
  for (int32_t& token : prompt) token = static_cast<int32_t>(random.below(kVocab));
  return prompt;
}

} // namespace

TEST_CASE("sequences that come and go return what each returns alone") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const bool recurrent : {false, true})
    for (const bool decodes : {false, true}) {
      CAPTURE(recurrent);
      CAPTURE(decodes);
      History executor({.recurrent = recurrent, .decodes = decodes});
      Scheduler scheduler(executor, executor.program);
      std::vector<std::thread> clients;
      std::atomic<int> wrong = 0;
      for (uint64_t client = 0; client < 6; ++client)
        clients.emplace_back([&, client] {
          Random random(seed + client);
          std::vector<int32_t> conversation;
          for (int turn = 0; turn < 60; ++turn) {
            if (random.below(4) == 0 || conversation.size() > 40) conversation.clear();
            const std::vector<int32_t> more = random_prompt(random, 20);
            conversation.insert(conversation.end(), more.begin(), more.end());
            const int64_t limit = static_cast<int64_t>(random.below(12)) - 1;
            const bool ends = random.below(2) == 0;
            const auto sequence = scheduler.submit(request_for(conversation, limit, ends));
            const bool cancelled = random.below(5) == 0;
            if (cancelled) sequence->cancel();
            const std::vector<int32_t> tokens = all(*sequence);
            const Expected want = expected(conversation, limit, ends, 64);
            const bool whole = tokens == want.tokens && sequence->stop() == want.stop;
            const bool part = cancelled && sequence->stop() == StopReason::interrupted &&
                              tokens.size() <= want.tokens.size() &&
                              std::equal(tokens.begin(), tokens.end(), want.tokens.begin());
            if (!whole && !part) ++wrong;
            conversation.insert(conversation.end(), tokens.begin(), tokens.end());
            if (conversation.size() > 44) conversation.clear();
          }
        });
      for (std::thread& client : clients) client.join();
      CHECK(wrong == 0);
      scheduler.drain();
      const Scheduler::Counts counts = scheduler.counts();
      CHECK(counts.ended == 6 * 60);
      CHECK(counts.running == 0);
      CHECK(counts.waiting == 0);
      CHECK((executor.chosen > 0) == decodes);
      CHECK((executor.chosen_together > 0) == decodes);
    }
}

TEST_CASE("a conversation's next turn evaluates only what is new, also beside others") {
  for (const bool recurrent : {false, true}) {
    CAPTURE(recurrent);
    History executor({.recurrent = recurrent});
    Scheduler scheduler(executor, executor.program);
    std::vector<int32_t> first(30, 5), other(25, 9);
    const std::vector<int32_t> answer = all(*scheduler.submit(request_for(first, 4, false)));
    all(*scheduler.submit(request_for(other, 4, false)));
    first.insert(first.end(), answer.begin(), answer.end());
    first.insert(first.end(), {1, 2, 3});
    const auto second = scheduler.submit(request_for(first, 1, false));
    all(*second);
    CHECK(second->cached_tokens() == 33); // last token not evaluated
    CHECK(second->prompt_usage().tokens == 4);
  }
}

TEST_CASE("prompts that begin alike are evaluated once, whichever comes first and whichever leaves") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  Random random(seed);
  for (const bool recurrent : {false, true})
    for (const bool cancels : {false, true}) {
      CAPTURE(recurrent);
      CAPTURE(cancels);
      History executor({.streams = 8, .context = 256, .recurrent = recurrent});
      std::promise<void> submitted;
      executor.before_step = [all = submitted.get_future().share()] { all.wait(); };
      Scheduler scheduler(executor, executor.program);
      std::vector<int32_t> common(150);
      for (int32_t& token : common) token = static_cast<int32_t>(random.below(kVocab));
      std::vector<std::vector<int32_t>> prompts;
      std::vector<std::shared_ptr<Sequence>> sequences;
      int64_t own = 0;
      for (int i = 0; i < 8; ++i) {
        std::vector<int32_t> prompt = common;
        const std::vector<int32_t> more = random_prompt(random, 20);
        if (i % 3 != 0) prompt.insert(prompt.end(), more.begin(), more.end());
        own += std::ssize(prompt) - std::ssize(common);
        prompts.push_back(prompt);
        sequences.push_back(scheduler.submit(request_for(prompt, 10, false)));
      }
      submitted.set_value();
      if (cancels) sequences[0]->cancel(); // others wait for its prompt
      for (int i = cancels ? 1 : 0; i < 8; ++i) {
        CHECK(all(*sequences[i]) == expected(prompts[i], 10, false, 256).tokens);
        CHECK(sequences[i]->stop() == StopReason::limit);
      }
      scheduler.drain();
      const int64_t generated = 8 * 10, last_tokens = 8;
      CHECK(executor.evaluated <= std::ssize(common) + own + generated + last_tokens);
      if (!cancels) CHECK(scheduler.counts().cached_tokens == executor.copied);
      if (!cancels) CHECK(executor.copied >= 7 * (std::ssize(common) - 1));
    }
}

TEST_CASE("a long prompt is read in pieces beside the sequences that generate") {
  History executor({.streams = 2, .context = 1 << 22, .max_batch = 2048});
  Scheduler scheduler(executor, executor.program);
  const auto talking = scheduler.submit(request_for({1, 2, 3}, -1, false));
  REQUIRE(talking->next());
  const auto reading = scheduler.submit(request_for(std::vector<int32_t>(5000, 3), 1, false));
  CHECK(all(*reading) == expected(std::vector<int32_t>(5000, 3), 1, false, 8192).tokens);
  CHECK(executor.largest <= 513);
  talking->cancel();
  all(*talking);
  all(*scheduler.submit(request_for(std::vector<int32_t>(5000, 4), 1, false)));
  CHECK(executor.largest == 2048); // alone, with whole batches
}

TEST_CASE("of those that wait, the one of the lowest priority number starts first") {
  History executor({.streams = 1, .context = 1 << 22});
  Scheduler scheduler(executor, executor.program);
  const auto running = scheduler.submit(request_for({1}, -1, false));
  REQUIRE(running->next());
  SequenceRequest second = request_for({2}, 1, false), first = request_for({3}, 1, false);
  first.priority = -1;
  const auto later = scheduler.submit(std::move(second)), sooner = scheduler.submit(std::move(first));
  running->cancel();
  all(*later);
  all(*sooner);
  CHECK(sooner->seconds_waiting() < later->seconds_waiting());
}

TEST_CASE("what cannot run is refused, and what breaks ends with its error") {
  History executor({});
  Scheduler scheduler(executor, executor.program);
  CHECK_THROWS_WITH_AS(scheduler.submit(request_for({}, 1)), "the prompt is empty: nothing to evaluate", Error);
  CHECK_THROWS_AS(scheduler.submit(request_for(std::vector<int32_t>(65, 1), 1)), Error);
  CHECK_THROWS_AS(scheduler.submit(request_for({kVocab}, 1)), Error);
  SequenceRequest cold = request_for({1}, 1);
  cold.sampling.temp = -1;
  CHECK_THROWS_AS(scheduler.submit(std::move(cold)), Error);

  SequenceRequest failing = request_for({1, 2}, 5);
  failing.is_end = [](int32_t) -> bool { throw Error("the file was truncated"); };
  const auto failed = scheduler.submit(std::move(failing));
  CHECK_THROWS_WITH_AS(failed->next(), "the file was truncated", Error);
  executor.broken = true;
  const auto broken = scheduler.submit(request_for({1, 2}, 5));
  CHECK_THROWS_WITH_AS(broken->next(), "the device is gone", Error);
  executor.broken = false;
  CHECK(all(*scheduler.submit(request_for({1, 2}, 5, false))) == expected({1, 2}, 5, false, 64).tokens);
  scheduler.drain();
  CHECK_THROWS_AS(scheduler.submit(request_for({1}, 1)), Error);
}

TEST_CASE("a scheduler that is destroyed ends what runs and what waits") {
  History executor({.streams = 1, .context = 1 << 22});
  std::vector<std::shared_ptr<Sequence>> sequences;
  {
    Scheduler scheduler(executor, executor.program);
    for (int i = 0; i < 3; ++i) sequences.push_back(scheduler.submit(request_for({1, i}, -1, false)));
    REQUIRE(sequences[0]->next());
  }
  for (const auto& sequence : sequences) {
    all(*sequence);
    CHECK(sequence->stop() == StopReason::interrupted);
  }
}

TEST_CASE("a sequence's tokens are the same alone and among others") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::check_sequences(kernels::cpu::make_cpu_executor, seed);
}

TEST_CASE("the likely tokens in each place of a prompt are those behind what stands before it") {
  for (const int64_t outputs : {3, 4, 64}) {
    History executor({.streams = 3, .context = 200, .outputs = outputs});
    Scheduler scheduler(executor, executor.program);
    std::vector<int32_t> prompt(60);
    std::iota(prompt.begin(), prompt.end(), 3);
    for (int round = 0; round < 2; ++round) {
      std::vector<std::shared_ptr<Sequence>> sequences;
      for (int i = 0; i < 3; ++i) {
        SequenceRequest request = request_for(prompt, i, false);
        request.keep_choices = request.keep_prompt_choices = i > 0;
        sequences.push_back(scheduler.submit(std::move(request)));
      }
      for (int i = 0; i < 3; ++i) {
        while (sequences[i]->next()) continue;
        if (i == 0) continue;
        CHECK(sequences[i]->cached_tokens() == 0);
        REQUIRE(sequences[i]->prompt_choices().size() == prompt.size() - 1);
        uint64_t state = 0;
        for (size_t place = 1; place < prompt.size(); ++place) {
          state = History::after(state, prompt[place - 1]);
          CHECK(sequences[i]->prompt_choices()[place - 1].top[0].token == next_of(state));
          CHECK(sequences[i]->prompt_choices()[place - 1].token == prompt[place]);
        }
      }
    }
  }
}
