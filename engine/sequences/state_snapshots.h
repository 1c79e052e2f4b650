// Copies of a stream's recurrent state, and of what its windows see, at some positions, in host memory. A cache of all
// keys and values goes back by being overwritten. A recurrent state does not, nor does a cache that has lost what a
// window sees from there, so a session that goes back continues from the last copy before.
#pragma once

#include "core/executor.h"
#include "engine/prefixes/prefix_store.h"

#include <vector>

namespace ridge::engine {

class StateSnapshots {
 public:
  StateSnapshots(const core::Executor& executor, int32_t stream)
      : elements_(executor.saved_floats()), stream_(stream) {}

  bool needed() const { return elements_ > 0; } // else nothing is ever saved
  // The last position at or before `position` that there is a copy of; 0, where a stream starts anew: none.
  int64_t last_before(int64_t position) const;
  PrefixState at(int64_t position) const; // null: no copy
  PrefixStates all() const;
  // Keeps a copy of what the stream needs to go on at `position`, where it must be able to. Where there are too many
  // copies, the ones closest together go.
  PrefixState save(core::Executor& executor, int64_t position);
  // Gives the stream the copy of `position`.
  void load(core::Executor& executor, int64_t position) const {
    executor.load_state(stream_, floats(at(position)), position);
  }
  // Gives the stream what another one had at `position` behind the same tokens, and keeps it.
  void adopt(core::Executor& executor, int64_t position, PrefixState state);
  // Copies of later positions are of other tokens now.
  void drop_behind(int64_t position);

 private:
  struct Snapshot {
    int64_t position;
    PrefixState state;
  };
  void insert(int64_t position, PrefixState state);
  std::span<const float> floats(const PrefixState& state) const {
    return {state.get(), static_cast<size_t>(elements_)};
  }

  const int64_t elements_; // of f32
  const int32_t stream_;
  std::vector<Snapshot> snapshots_; // by position
};

} // namespace ridge::engine
