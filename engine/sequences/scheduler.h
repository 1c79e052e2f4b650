// Serves many sequences with one executor. A step evaluates one token of each generating sequence and pieces of
// unfinished prompts, so a long prompt stalls no other sequence. A stream keeps evaluated tokens for later prompts with
// the same prefix; the prefix cache keeps what it loses. With too few streams, lower priority numbers go first and
// equal ones take turns; a preempted sequence later continues with exactly its rows.
// A sequence that generates alone leaves most of a step's arithmetic unused: steps then also check draft tokens, and
// the executor chooses tokens itself where it can.
#pragma once

#include "engine/sequences/admission.h"
#include "engine/sequences/intake.h"
#include "engine/sequences/ledger.h"
#include "engine/sequences/shared_prefixes.h"
#include "engine/sequences/step_runner.h"
#include "engine/sequences/stream_files.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace ridge::engine {

class Scheduler {
 public:
  // Steps run on the scheduler's own thread, or in calls of advance().
  enum class Driver { thread, caller };

  // The references must outlive the scheduler, which uses all streams. The speculator (may be null) drafts for a
  // sequence that generates alone; if it reads hidden rows, the sequence must have been alone from its start. Throws
  // std::logic_error for fewer outputs than streams, and Error if the prefix folder cannot be created.
  Scheduler(core::Executor& executor, const core::Program& program, std::unique_ptr<Speculator> speculator = nullptr,
            const PrefixSettings& prefixes = {}, const Turns& turns = {}, Driver driver = Driver::thread);
  ~Scheduler();

  // Throws Error if the prompt is empty, exceeds the context or has unknown tokens, if sampling parameters are out of
  // range, and after drain().
  std::shared_ptr<Sequence> submit(SequenceRequest request);
  // Accepts no more sequences. Returns when all have ended and their rows are in the prefix folder.
  void drain();

  // Only with Driver::caller. Evaluates one step; returns false if nothing is left to do.
  bool advance();
  // For a driver that has used the executor for something else. No sequence may have the stream.
  std::span<const int32_t> cached(int32_t stream) const { return streams_.at(stream).cache.tokens(); }
  void keep(int32_t stream, int64_t count) { streams_.at(stream).cache.keep(count); }

  // Save (stream_files.h), restore and empty a stream as soon as no sequence has it. Not with Driver::caller.
  StreamFile save_stream(int32_t stream, const std::string& folder, const std::string& model);
  StreamFile restore_stream(int32_t stream, const std::string& folder, const std::string& model);
  int64_t erase_stream(int32_t stream); // returns the number of dropped tokens

  using Counts = SchedulerCounts;
  Counts counts() const;
  // Number of evaluated tokens by stream; -1: no sequence.
  std::vector<int64_t> positions() const { return ledger_.positions(); }
  // A snapshot for display. It is taken in the step after the previous call; it is current if nothing runs or the
  // caller drives the scheduler.
  api::Sequences sequences() const;
  bool keeps_prefixes() const { return prefixes_.on(); } // false once copying failed
  bool speculates() const { return steps_.speculates(); }

 private:
  void check(const SequenceRequest& request) const;
  void run_when_free(int32_t stream, Intake::StreamWork work);
  void run();
  bool publish_progress();
  api::Sequences describe() const;
  void work();
  void end_cancelled();
  void run_jobs();
  void keep_all();
  void end_everything();

  void start_waiting();
  Start next_start() const;
  bool preempt(Stream& stream);
  void start(const Start& next);
  void end(Stream& stream, StopReason stop, std::exception_ptr error = nullptr);
  void finish(const SequencePointer& sequence, StopReason stop, std::exception_ptr error = nullptr);

  core::Executor& executor_;
  const core::Program& program_;
  const bool driven_by_caller_;

  // Only the scheduler's thread uses these.
  Streams streams_;
  SharedPrefixes prefixes_;
  TurnPolicy turns_;
  Ledger ledger_;
  StepRunner steps_;

  Intake intake_;
  mutable std::mutex snapshot_mutex_;
  api::Sequences snapshot_;
  mutable std::atomic<bool> snapshot_requested_ = true; // since snapshot_ was made
  std::thread thread_;
};

} // namespace ridge::engine
