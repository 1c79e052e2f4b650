// Draft heads in a scheduler.
#include "engine/head_runs.h"
#include "engine/sequences/scheduler.h"
#include "kernels/cpu/executor/executor.h"
#include "support/drafts/dflash_pair.h"
#include "support/drafts/draft_model.h"
#include "support/numerics.h"

#include <mutex>
#include <random>
#include <thread>

using namespace ridge;
using engine::Scheduler;
using engine::Sequence;
using engine::SequenceRequest;
using kernels::cpu::make_cpu_executor;
using tests::DraftModel;

namespace {

constexpr int32_t kHeadVocab = 48;

using Tokens = std::vector<int32_t>;

std::vector<DraftModel> draft_models() {
  return {DraftModel::attention(), DraftModel::recurrent(), DraftModel::chained()};
}

SequenceRequest request_of(const Tokens& prompt, int64_t limit, bool sampled = false) {
  SequenceRequest request;
  request.prompt = prompt;
  request.limit = limit;
  request.sampling.temp = sampled ? 2 : 0;
  request.sampling.seed = 7;
  request.sampling.repeat_penalty = sampled ? 1.2f : 1.0f;
  return request;
}

Tokens remaining_tokens(Sequence& sequence) {
  Tokens tokens;
  while (const auto token = sequence.next()) tokens.push_back(token->id);
  return tokens;
}

std::unique_ptr<engine::Speculator> watched(const engine::LoadedModel& model, int64_t length) {
  return std::make_unique<engine::Speculator>(std::make_unique<tests::WatchedHeads>(model, make_cpu_executor), length);
}

// The first goes back once. Returns all turns' tokens.
Tokens converse(Scheduler& scheduler, bool sampled, int64_t& guesses) {
  Tokens first, second, all;
  const auto turn = [&](Tokens& conversation, int32_t said, int64_t limit) {
    for (int32_t i = 0; i < said; ++i) conversation.push_back((7 * i * i + 3 * i + said) % kHeadVocab);
    const auto sequence = scheduler.submit(request_of(conversation, limit, sampled));
    const Tokens answer = remaining_tokens(*sequence);
    guesses += sequence->guesses().all_made();
    conversation.insert(conversation.end(), answer.begin(), answer.end());
    all.insert(all.end(), answer.begin(), answer.end());
  };
  turn(first, 30, 9);
  turn(second, 25, 12);
  const Tokens before = first;
  turn(first, 4, 12);
  turn(second, 5, 8);
  first = before;
  turn(first, 3, 10);
  return all;
}

} // namespace

TEST_CASE("scheduler: draft heads guess what they compute in conversations of several streams") {
  for (const DraftModel& made : draft_models())
    for (const bool sampled : {false, true}) {
      CAPTURE(std::string(made.shape.architecture));
      CAPTURE(sampled);
      const engine::LoadedModel model = tests::open_with_heads(made.open(), make_cpu_executor, 2);
      int64_t none = 0;
      const Tokens plain = [&] {
        Scheduler scheduler(*model.executor, model.program);
        return converse(scheduler, sampled, none);
      }();
      CHECK(none == 0);
      for (const int64_t length : {0, 1, 4}) { // 0: adaptive
        CAPTURE(length);
        int64_t guesses = 0;
        Scheduler scheduler(*model.executor, model.program, watched(model, length));
        CHECK(converse(scheduler, sampled, guesses) == plain);
        if (length > 0) CHECK(guesses > 5 * 3 * length);
      }
    }
}

TEST_CASE("scheduler: a DFlash head guesses in conversations of two streams, and for a sequence alone") {
  for (const tests::DflashPair& pair : tests::DflashPair::kinds()) {
    CAPTURE(pair.head_layers);
    const engine::LoadedModel model = tests::open_with_dflash(pair.model(), pair.head(), make_cpu_executor, 2);
    const auto drafting = [&](int64_t length) {
      return std::make_unique<engine::Speculator>(engine::make_head_drafter(model), length);
    };
    int64_t none = 0;
    const Tokens plain = [&] {
      Scheduler scheduler(*model.executor, model.program);
      return converse(scheduler, false, none);
    }();
    for (const int64_t length : {0, 1, 7}) { // 0: adaptive
      CAPTURE(length);
      int64_t guesses = 0;
      Scheduler scheduler(*model.executor, model.program, drafting(length));
      CHECK(converse(scheduler, false, guesses) == plain);
      if (length > 0) CHECK(guesses > 5 * 3 * length);
    }
    Scheduler scheduler(*model.executor, model.program, drafting(3));
    std::shared_ptr<Sequence> second;
    SequenceRequest request = request_of({3, 1, 4, 1, 5}, 30);
    request.is_end = [&, count = 0](int32_t) mutable {
      if (++count == 5) second = scheduler.submit(request_of({2, 7, 1, 8}, 8));
      return false;
    };
    const auto first = scheduler.submit(std::move(request));
    const Tokens beside = remaining_tokens(*first);
    REQUIRE(second);
    remaining_tokens(*second);
    CHECK(second->guesses().steps == 0);
    CHECK(first->guesses().steps >= 3);
    Scheduler alone(*model.executor, model.program);
    CHECK(remaining_tokens(*alone.submit(request_of({3, 1, 4, 1, 5}, 30))) == beside);
  }
}

TEST_CASE("scheduler: draft heads follow a sequence among others, and guess for no other") {
  for (const DraftModel& made : draft_models()) {
    CAPTURE(std::string(made.shape.architecture));
    const engine::LoadedModel model = tests::open_with_heads(made.open(), make_cpu_executor, 2);
    const Tokens prompts[] = {{3, 1, 4, 1, 5}, {2, 7, 1, 8}};
    for (const std::pair<int64_t, int64_t>& limits : {std::pair<int64_t, int64_t>(60, 10), {12, 40}}) {
      const int64_t first_limit = limits.first, second_limit = limits.second;
      CAPTURE(first_limit);
      Tokens plain[2];
      {
        Scheduler scheduler(*model.executor, model.program);
        plain[0] = remaining_tokens(*scheduler.submit(request_of(prompts[0], first_limit)));
        plain[1] = remaining_tokens(*scheduler.submit(request_of(prompts[1], second_limit)));
      }
      Scheduler scheduler(*model.executor, model.program, watched(model, 3));
      std::shared_ptr<Sequence> second;
      SequenceRequest request = request_of(prompts[0], first_limit);
      request.is_end = [&, count = 0](int32_t) mutable {
        if (++count == 5) second = scheduler.submit(request_of(prompts[1], second_limit));
        return false;
      };
      const auto first = scheduler.submit(std::move(request));
      CHECK(remaining_tokens(*first) == plain[0]);
      REQUIRE(second);
      CHECK(remaining_tokens(*second) == plain[1]);
      CHECK(second->guesses().steps == 0);
      CHECK(first->guesses().steps >= 1);
      if (first_limit > second_limit) CHECK(first->guesses().steps >= (first_limit - 5 - second_limit - 4) / 4);
      const auto third = scheduler.submit(request_of(prompts[1], 20));
      remaining_tokens(*third);
      CHECK(third->guesses().steps > 3);
    }
  }
}

TEST_CASE("scheduler: with draft heads, sequences that come, go and are preempted say what they say alone") {
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  for (const DraftModel& made : draft_models()) {
    CAPTURE(std::string(made.shape.architecture));
    const engine::LoadedModel reference = tests::open_with_heads(made.open(), make_cpu_executor, 2),
                              model = tests::open_with_heads(made.open(), make_cpu_executor, 2);
    Scheduler plain(*reference.executor, reference.program);
    Scheduler scheduler(*model.executor, model.program,
                        std::make_unique<engine::Speculator>(std::make_unique<engine::HeadDrafter>(model), 2),
                        {.bytes = 1 << 26}, {.seconds = 1e-3, .patience = 1e9, .share = 1});
    std::atomic<int64_t> wrong = 0;
    std::mutex one_by_one;
    std::vector<std::thread> clients;
    for (uint64_t client = 0; client < 3; ++client)
      clients.emplace_back([&, client] {
        std::mt19937_64 random(seed + client);
        Tokens conversation;
        for (int turn = 0; turn < 8; ++turn) {
          if (conversation.size() > 90 || random() % 4 == 0) conversation.clear();
          for (uint64_t i = 1 + random() % 20; i > 0; --i)
            conversation.push_back(static_cast<int32_t>(random() % kHeadVocab));
          const bool sampled = random() % 2;
          const int64_t limit = 1 + static_cast<int64_t>(random() % 30);
          Tokens expected;
          {
            const std::scoped_lock lock(one_by_one);
            expected = remaining_tokens(*plain.submit(request_of(conversation, limit, sampled)));
          }
          const auto sequence = scheduler.submit(request_of(conversation, limit, sampled));
          const Tokens answer = remaining_tokens(*sequence);
          if (answer != expected) ++wrong;
          conversation.insert(conversation.end(), answer.begin(), answer.end());
        }
      });
    for (std::thread& client : clients) client.join();
    CHECK(wrong == 0);
    const auto alone = scheduler.submit(request_of({3, 1, 4}, 20));
    remaining_tokens(*alone);
    CHECK(alone->guesses().all_made() > 0);
  }
}
