// Wakes the readers of a step's tokens.
#pragma once

#include "engine/sequences/scheduled_sequence.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace ridge::engine {

// Each wake costs microseconds. Readers of several sequences are woken by the announcer's own thread, while the next
// step is evaluated; the reader of a single one at once.
class Announcer {
 public:
  explicit Announcer(bool own_thread);
  ~Announcer();

  void add(const SequencePointer& sequence); // to the next announcement, if it is not the last one added
  void announce();

 private:
  void work();

  std::vector<SequencePointer> step_;
  std::mutex mutex_; // guards the members below
  std::condition_variable changed_;
  std::vector<SequencePointer> waiting_;
  bool over_ = false;
  std::thread thread_;
};

} // namespace ridge::engine
