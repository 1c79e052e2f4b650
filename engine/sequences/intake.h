// What other threads ask of a scheduler: sequences that wait for a stream, work on free streams, and the end.
#pragma once

#include "engine/sequences/streams.h"

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <vector>

namespace ridge::engine {

class Intake {
 public:
  using StreamWork = std::function<void(StreamCache& cache)>;
  struct Job {
    int32_t stream;
    std::packaged_task<void(StreamCache&)> work;
  };

  // From any thread. Both throw Error after close() and stop().
  void submit(const SequencePointer& sequence);
  void run_when_free(int32_t stream, StreamWork work); // returns when that is done
  void close();                                        // nothing more comes
  void stop();                                         // as soon as possible
  void wait_for_end();                                 // until all sequences have ended and set_kept() was called
  int64_t waiting() const;

  // For the scheduler's thread.
  enum class Next { work, keep, stop }; // keep: nothing more comes, and rows must be kept
  Next next(bool busy);                 // waits unless `busy`
  // `look` gets the waiting sequences, locked.
  template <class Look>
  auto look(const Look& look) const {
    const std::scoped_lock lock(mutex_);
    return look(std::span<const SequencePointer>(waiting_));
  }
  void remove(const SequencePointer& sequence);
  void put_back(SequencePointer sequence);
  std::vector<SequencePointer> take_cancelled();
  std::vector<SequencePointer> take_all();            // also drops jobs
  bool interrupts(const Streams& streams) const;      // a job whose stream is free, or the end
  std::vector<Job> take_jobs(const Streams& streams); // those whose stream is free
  void count_ended();
  bool kept() const;
  void set_kept();

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<SequencePointer> waiting_;
  std::vector<Job> jobs_;
  uint64_t submitted_ = 0, ended_ = 0;
  bool closed_ = false, stopping_ = false, kept_ = false;
};

} // namespace ridge::engine
