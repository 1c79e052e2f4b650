// Counts of a scheduler and positions of its streams, for any thread.
#pragma once

#include "engine/sequences/scheduled_sequence.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

namespace ridge::engine {

struct SchedulerCounts {
  int64_t running = 0, waiting = 0;
  int64_t ended = 0;
  int64_t preemptions = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  // Part of cached_tokens that came from the prefix cache, and part of those from its folder.
  int64_t stored_tokens = 0, disk_tokens = 0;
  int64_t stored_bytes = 0;
  int64_t guesses_made = 0, guesses_right = 0;
  int64_t steps = 0;
  double seconds = 0, bytes = 0;
};

class Ledger {
 public:
  explicit Ledger(int64_t streams) : positions_(streams, -1) {}

  template <class Change>
  void count(const Change& change) {
    const std::scoped_lock lock(mutex_);
    change(counts_);
  }
  void count_cached(ScheduledSequence& sequence, int64_t tokens) {
    if (sequence.must_reevaluate_) return;
    sequence.cached_ += tokens;
    count([&](SchedulerCounts& counts) { counts.cached_tokens += tokens; });
  }
  // Number of evaluated tokens; -1: no sequence.
  void set_position(int32_t stream, int64_t position) {
    const std::scoped_lock lock(mutex_);
    positions_[stream] = position;
  }
  std::vector<int64_t> positions() const {
    const std::scoped_lock lock(mutex_);
    return positions_;
  }
  SchedulerCounts counts() const { // without those that wait
    const std::scoped_lock lock(mutex_);
    SchedulerCounts counts = counts_;
    counts.running = std::ranges::count_if(positions_, [](int64_t position) { return position >= 0; });
    return counts;
  }

 private:
  mutable std::mutex mutex_;
  SchedulerCounts counts_;
  std::vector<int64_t> positions_;
};

} // namespace ridge::engine
