// The scheduler's parts alone.
#include "core/error.h"
#include "engine/sequences/admission.h"
#include "engine/sequences/announcer.h"
#include "engine/sequences/intake.h"
#include "engine/sequences/step_plan.h"
#include "support/history_executor.h"
#include "support/watchdog.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

using namespace ridge;
using engine::Intake;
using engine::Piece;
using engine::SequencePointer;
using tests::History;

namespace {

SequencePointer sequence_of(int64_t prompt, int64_t priority = 0, uint64_t number = 0) {
  engine::SequenceRequest request;
  request.prompt.assign(prompt, 1);
  request.priority = priority;
  auto sequence = std::make_shared<engine::ScheduledSequence>(std::move(request));
  sequence->number_ = number;
  return sequence;
}

int64_t tokens_of(const std::vector<Piece>& pieces, int32_t stream) {
  int64_t tokens = 0;
  for (const Piece& piece : pieces) tokens += piece.stream == stream ? std::ssize(piece.tokens) : 0;
  return tokens;
}

} // namespace

TEST_CASE("admission: free streams first, then those of less priority, none without a place to keep rows") {
  double now = 100;
  const engine::TurnPolicy turns({.seconds = 5, .patience = 30, .share = 0.5, .clock = [&] { return now; }});
  History executor({.streams = 2});
  engine::Streams streams = engine::make_streams(executor, executor.program);
  const std::vector<SequencePointer> waiting = {sequence_of(3, 1, 7), sequence_of(3, 0, 8)};
  for (const SequencePointer& each : waiting) each->waits_since_ = now;
  CHECK(engine::next_start(turns, {}, streams, 9, true).sequence == nullptr);
  CHECK(engine::next_start(turns, waiting, streams, 9, true).sequence == waiting[1]);
  streams[0].sequence = sequence_of(3, 0, 1);
  streams[1].sequence = sequence_of(3, 2, 2);
  for (engine::Stream& stream : streams) stream.turn.start = now;
  const engine::Start next = engine::next_start(turns, waiting, streams, 9, true);
  CHECK(next.sequence == waiting[1]);
  CHECK(next.stream == 1);
  CHECK(engine::next_start(turns, waiting, streams, 9, false).sequence == nullptr);
  waiting[0]->waits_since_ = now - 31; // too long
  CHECK(engine::next_start(turns, waiting, streams, 9, true).sequence == waiting[0]);
}

TEST_CASE("steps: sequences that generate come first, and prompts share the rest of the batch") {
  History executor({.streams = 3, .context = 64, .max_batch = 16});
  engine::Streams streams = engine::make_streams(executor, executor.program);
  engine::StepPlanner planner(executor, executor.program, streams);
  for (int32_t i = 0; i < 3; ++i) streams[i].sequence = sequence_of(40, 0, i);
  const std::vector<int32_t> read(39, 1);
  streams[1].cache.evaluated(read);
  streams[1].sequence->tokens_.push_back(5);
  streams[1].sequence->text_ = 39;
  const std::vector<Piece> pieces = planner.plan([](engine::Stream&) { return false; });
  REQUIRE(pieces.size() == 3);
  CHECK_FALSE(pieces[0].reading);
  CHECK(pieces[0].wanted);
  CHECK(tokens_of(pieces, 1) == 2);
  CHECK(tokens_of(pieces, 0) + tokens_of(pieces, 2) == 14);
  CHECK(std::ssize(planner.batch_of(pieces).outputs) == 1);
  CHECK(planner.plan([](engine::Stream&) { return true; }).size() == 1);
}

TEST_CASE("intake: refuses what comes after the end, and lets waiting threads go") {
  Intake intake;
  History executor({.streams = 1});
  engine::Streams streams = engine::make_streams(executor, executor.program);
  const SequencePointer first = sequence_of(3), second = sequence_of(3);
  intake.submit(first);
  intake.submit(second);
  CHECK(intake.waiting() == 2);
  CHECK(intake.next(false) == Intake::Next::work);
  first->cancel();
  CHECK(intake.take_cancelled() == std::vector{first});
  intake.remove(second);
  std::thread asks([&] { CHECK_THROWS_AS(intake.run_when_free(0, [](engine::StreamCache&) {}), Error); });
  while (!intake.interrupts(streams)) std::this_thread::yield();
  intake.close();
  CHECK_THROWS_AS(intake.submit(first), Error);
  CHECK(intake.take_all().empty());
  asks.join();
  intake.count_ended();
  intake.count_ended();
  CHECK(intake.next(false) == Intake::Next::keep);
  intake.set_kept();
  intake.wait_for_end();
  intake.stop();
  CHECK(intake.next(true) == Intake::Next::stop);
}

TEST_CASE("announcements: the readers of a step's tokens wake, with a thread for it and without") {
  for (const bool own_thread : {true, false}) {
    CAPTURE(own_thread);
    engine::Announcer announcer(own_thread);
    for (const int64_t readers : {1, 5}) {
      std::vector<SequencePointer> sequences;
      std::vector<std::thread> threads;
      std::atomic<int64_t> read = 0;
      for (int64_t i = 0; i < readers; ++i) {
        sequences.push_back(sequence_of(3));
        threads.emplace_back([&read, sequence = sequences.back()] {
          while (const auto token = sequence->next()) read += token->id;
        });
      }
      for (int32_t step = 1; step <= 3; ++step) {
        for (const SequencePointer& sequence : sequences) {
          sequence->append(10 * step, std::nullopt);
          sequence->append(1, std::nullopt);
          announcer.add(sequence);
        }
        announcer.announce();
        const tests::Guard guard("the readers to take a step's tokens");
        while (read < readers * (step == 1 ? 11 : step == 2 ? 32 : 63)) std::this_thread::yield();
      }
      for (const SequencePointer& sequence : sequences) sequence->end(engine::StopReason::limit, nullptr);
      for (std::thread& thread : threads) thread.join();
    }
  }
}
