// Copies of a stream's recurrent state, and of what its windows see, at some positions, in host memory. A cache of all
// keys and values goes back by being overwritten. A recurrent state does not, nor does a cache that has lost what a
// window sees from there, so a session that goes back continues from the last copy before.
#pragma once

#include "core/executor.h"

#include <vector>

namespace ridge::engine {

class StateSnapshots {
 public:
  StateSnapshots(const core::Executor& executor, int32_t stream)
      : elements_(executor.saved_floats()), stream_(stream) {}

  bool needed() const { return elements_ > 0; } // else nothing is ever saved
  // Where the last copy at or before `position` is of: 0, where a stream starts anew, if there is none.
  int64_t last(int64_t position = INT64_MAX) const;
  // Keeps what going on at `position` takes, which the stream must have. Of too many copies the ones closest together
  // go.
  void save(core::Executor& executor, int64_t position);
  // Drops copies of later positions: they are of other tokens.
  void drop_behind(int64_t position);
  // Gives a stream the copy of last(position), and returns that.
  int64_t restore(core::Executor& executor, int32_t stream, int64_t position) const;

 private:
  struct Snapshot {
    int64_t position;
    std::vector<float> state;
  };
  const int64_t elements_;
  const int32_t stream_;
  std::vector<Snapshot> snapshots_; // by position
};

} // namespace ridge::engine
