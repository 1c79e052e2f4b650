// Copies of a stream's recurrent state at some positions, in host memory. A cache of keys and values goes back by being
// overwritten; a recurrent state does not, so a session that goes back continues from the last copy before.
#pragma once

#include "core/executor.h"
#include "engine/prefixes/prefix_store.h"

#include <vector>

namespace ridge::engine {

class StateSnapshots {
 public:
  StateSnapshots(const core::Program& program, int32_t stream)
      : elements_(core::state_elements(program)), stream_(stream) {}

  bool needed() const { return elements_ > 0; } // the Program has recurrent state; else nothing is ever saved
  int64_t last() const { return snapshots_.empty() ? 0 : snapshots_.back().position; } // that a copy is of
  // Keeps the state of the stream, which is that of `position`. Of too many copies the ones closest together go.
  void save(core::Executor& executor, int64_t position);
  // Gives the stream the state of the last copy at or before `position`, and returns where that is: 0, where a stream
  // starts anew, if there is none. Later copies are dropped: they are of other tokens.
  int64_t restore(core::Executor& executor, int64_t position);
  // The last position at or before `position` that there is a copy of; 0: none.
  int64_t last_before(int64_t position) const;
  PrefixState at(int64_t position) const; // null: no copy
  PrefixStates all() const;
  // Gives the stream this state, which another one had at `position` behind the same tokens. Copies behind `same` are
  // dropped: they are of other tokens.
  void adopt(core::Executor& executor, int64_t position, PrefixState state, int64_t same);

 private:
  struct Snapshot {
    int64_t position;
    PrefixState state;
  };
  void drop_behind(int64_t position);
  const int64_t elements_;
  const int32_t stream_;
  std::vector<Snapshot> snapshots_; // by position
};

} // namespace ridge::engine
