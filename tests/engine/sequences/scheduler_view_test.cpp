// The state that a scheduler reports.
#include "engine/sequences/scheduler.h"
#include "support/history_executor.h"
#include "support/http/requests.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

using namespace ridge;
using api::Sequences;
using engine::Scheduler;
using tests::History;
using tests::request_of;

namespace {

constexpr double kForever = 1e9; // seconds

std::vector<int32_t> text_of(int32_t first, int64_t tokens) {
  return std::vector<int32_t>(static_cast<size_t>(tokens), first);
}

// Driven by the test, so that views are stable.
struct Driven {
  explicit Driven(const History::Settings& settings)
      : executor(settings), scheduler(executor, executor.program, nullptr, {.bytes = 1 << 20},
                                      {.seconds = kForever, .patience = kForever}, Scheduler::Driver::caller) {}
  std::shared_ptr<engine::Sequence> submit(const std::vector<int32_t>& prompt, int64_t limit, int64_t priority = 0) {
    engine::SequenceRequest request = request_of(prompt, limit);
    request.priority = priority;
    return scheduler.submit(std::move(request));
  }
  void finish() {
    while (scheduler.advance()) continue;
  }

  History executor;
  Scheduler scheduler;
};

} // namespace

TEST_CASE("what a scheduler says of its sequences is what they are at") {
  Driven driven({.streams = 2, .context = 100, .max_batch = 16});
  Scheduler& scheduler = driven.scheduler;
  driven.submit(text_of(1, 40), 30);
  driven.submit(text_of(2, 4), 30);
  driven.submit(text_of(3, 4), 30, 2);
  driven.submit(text_of(4, 4), 30, 1);
  Sequences seen = scheduler.sequences();
  REQUIRE(seen.rows.size() == 4);
  for (const Sequences::Row& row : seen.rows) CHECK(row.state == Sequences::State::waiting);
  CHECK(seen.rows[2].number == 3);
  CHECK(seen.rows[3].priority == 2);

  REQUIRE(scheduler.advance());
  seen = scheduler.sequences();
  REQUIRE(seen.rows.size() == 4);
  CHECK(seen.rows[0].state == Sequences::State::reading);
  CHECK(seen.rows[0].stream == 0);
  CHECK(seen.rows[0].prompt_tokens == 40);
  CHECK(seen.rows[0].evaluated_tokens == seen.streams[0].tokens);
  CHECK(seen.rows[0].evaluated_tokens >= 8);
  CHECK(seen.rows[0].answer_tokens == 0);
  CHECK(seen.rows[1].state == Sequences::State::writing);
  CHECK(seen.rows[1].answer_tokens == 1);
  CHECK(seen.streams[1] == Sequences::Stream{true, 4});
  CHECK(seen.rows[2].stream == -1);

  // Preempts a sequence; its tokens are kept.
  driven.submit(text_of(5, 4), 30, -1);
  REQUIRE(scheduler.advance());
  seen = scheduler.sequences();
  REQUIRE(seen.rows.size() == 5);
  int64_t aside = 0;
  for (const Sequences::Row& row : seen.rows) {
    if (row.state != Sequences::State::preempted) continue;
    ++aside;
    CHECK(row.stream == -1);
    CHECK(row.evaluated_tokens > 0);
  }
  CHECK(aside == 1);
  REQUIRE(seen.prefixes.size() == 1);
  CHECK(seen.prefixes[0].held);

  driven.finish();
  seen = scheduler.sequences();
  CHECK(seen.rows.empty());
  for (const Sequences::Stream& stream : seen.streams) CHECK(!stream.busy);
  for (const Sequences::Prefix& part : seen.prefixes) CHECK(!part.held);
  CHECK(scheduler.counts().ended == 5);
}

TEST_CASE("the prefix tree says what texts have in common, below what, and which was used last") {
  Driven driven({.streams = 1, .context = 400, .max_batch = 64});
  const auto say = [&](int32_t first, int64_t common, int32_t rest) {
    std::vector<int32_t> prompt = text_of(first, common);
    prompt.insert(prompt.end(), 40, rest);
    driven.submit(prompt, 1);
    driven.finish();
  };
  say(1, 80, 7);
  say(1, 80, 8);
  say(2, 50, 9);
  say(3, 60, 9);
  const Sequences seen = driven.scheduler.sequences();
  REQUIRE(seen.prefixes.size() == 4);
  CHECK(seen.prefix_nodes == 4);
  CHECK(seen.prefixes[0].first == 0);
  CHECK(seen.prefixes[0].tokens == 90);
  CHECK(seen.prefixes[0].texts == 1);
  CHECK(seen.prefixes[0].first_tokens == std::vector<int32_t>(24, 2));
  CHECK(seen.prefixes[1].tokens == 80);
  CHECK(seen.prefixes[1].texts == 2);
  CHECK(seen.prefixes[1].branches == 0);
  for (const size_t i : {2, 3}) {
    CHECK(seen.prefixes[i].first == 80);
    CHECK(seen.prefixes[i].branches == 1);
    CHECK(seen.prefixes[i].texts == 1);
    CHECK(seen.prefixes[i].tokens == 40);
  }
  CHECK(seen.prefixes[2].first_tokens[0] == 8);
  int64_t bytes = 0;
  for (const Sequences::Prefix& part : seen.prefixes) bytes += part.bytes;
  CHECK(bytes == seen.prefix_bytes);
}

TEST_CASE("a scheduler with a thread says what its sequences are at when it is asked, and that nothing runs any more") {
  History executor({.streams = 2, .context = 1 << 20});
  Scheduler scheduler(executor, executor.program);
  engine::SequenceRequest request = request_of(std::vector{1, 2, 3}, -1);
  const auto sequence = scheduler.submit(std::move(request));
  REQUIRE(sequence->next());
  int64_t most = 0;
  while (most < 100) {
    const Sequences seen = scheduler.sequences();
    for (const Sequences::Row& row : seen.rows) {
      CHECK(row.answer_tokens >= most);
      most = row.answer_tokens;
    }
    REQUIRE(sequence->next());
  }
  sequence->cancel();
  scheduler.drain();
  CHECK(scheduler.sequences().rows.empty());
  CHECK(scheduler.sequences().streams[0].tokens + scheduler.sequences().streams[1].tokens >= 100);
}
