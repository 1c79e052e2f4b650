// Host copies of a stream's recurrent state and window contents. Unlike plain KV caches these cannot go back by being
// overwritten, so a session that goes back continues from the last earlier copy.
#pragma once

#include "core/executor.h"
#include "engine/prefixes/prefix_store.h"

#include <vector>

namespace ridge::engine {

class StateSnapshots {
 public:
  StateSnapshots(const core::Executor& executor, int32_t stream)
      : elements_(executor.saved_floats()), stream_(stream) {}

  bool needed() const { return elements_ > 0; } // otherwise nothing is saved
  // 0: no copy, the stream starts anew.
  int64_t last_before(int64_t position) const;
  PrefixState at(int64_t position) const;
  PrefixStates all() const;
  // The stream must be able to continue at `position`. If there are too many copies, drops the one with the closest
  // neighbours.
  PrefixState save(core::Executor& executor, int64_t position);
  void load(core::Executor& executor, int64_t position) const {
    executor.load_state(stream_, floats(at(position)), position);
  }
  // Takes over another stream's state after the same tokens.
  void adopt(core::Executor& executor, int64_t position, PrefixState state);
  // Copies of later positions belong to other tokens now.
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

  const int64_t elements_;
  const int32_t stream_;
  std::vector<Snapshot> snapshots_;
};

} // namespace ridge::engine
