// Serves many sequences with one executor. Each takes one of the executor's streams; all that run take part in the next
// step: those that generate with one token, those whose prompt is not evaluated yet with a piece of it, so that a long
// prompt stalls nobody. A stream keeps what it evaluated, and a prompt that begins like it continues there.
#pragma once

#include "core/executor.h"
#include "engine/sequences/sequence.h"
#include "engine/sequences/stream_cache.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace ridge::engine {

class Scheduler {
 public:
  // Both must outlive the scheduler, which uses all streams of the executor from a thread of its own. Throws
  // std::logic_error if the executor gives fewer outputs than it has streams.
  Scheduler(core::Executor& executor, const core::Program& program);
  ~Scheduler(); // cancels what has not ended

  // Throws Error for a prompt that is empty, does not fit the context or has tokens outside the vocabulary, for
  // sampling parameters out of range, and after drain().
  std::shared_ptr<Sequence> submit(SequenceRequest request);
  // Takes no further sequence and returns when all have ended.
  void drain();

  struct Counts {
    int64_t running = 0, waiting = 0; // sequences now
    int64_t ended = 0;
    int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0; // of all sequences so far
    int64_t steps = 0;
    double seconds = 0, bytes = 0; // of all steps
  };
  Counts counts() const;
  // What each stream's sequence has evaluated and how much of the context that is; -1 where none runs.
  std::vector<int64_t> positions() const;

 private:
  struct Stream {
    StreamCache cache;
    std::shared_ptr<Sequence> sequence; // null: free
    uint64_t last_used = 0;             // step
  };
  struct Piece { // of a step
    int32_t stream;
    int64_t count;
    bool wanted; // the logits of its last token
  };

  void run();
  bool wait_for_work();
  void end_cancelled();
  void start_waiting();
  Stream& best_stream(std::span<const int32_t> prompt);
  void step();
  std::vector<Piece> plan_step();
  void evaluate(std::span<const Piece> pieces);
  void count_step(double seconds, double bytes);
  bool somebody_waits() const;
  bool start_decoding(const Stream& stream);
  void decode();
  void choose(Stream& stream, int64_t output);
  void take(Stream& stream, int32_t token, std::optional<core::TokenChoice> choice);
  void end(Stream& stream, StopReason stop, std::exception_ptr error = nullptr);
  void end_all(const std::exception_ptr& error);
  double bytes_of(std::span<const Piece> pieces) const;

  core::Executor& executor_;
  const core::Program& program_;
  std::vector<Stream> streams_; // the scheduler's thread alone
  bool decoding_ = false;       // the executor chooses the tokens of the only sequence itself
  uint64_t step_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Sequence>> waiting_;
  std::vector<int64_t> positions_;
  uint64_t submitted_ = 0;
  Counts counts_;
  bool draining_ = false, stopping_ = false;
  std::thread thread_;
};

} // namespace ridge::engine
