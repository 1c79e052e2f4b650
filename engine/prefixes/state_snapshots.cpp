#include "engine/prefixes/state_snapshots.h"

#include <algorithm>
#include <iterator>

namespace ridge::engine {
namespace {

constexpr int64_t kMaxBytes = int64_t{2} << 30; // a 27B hybrid's state has 150 MB
constexpr size_t kMax = 32, kMin = 2;

} // namespace

PrefixState StateSnapshots::save(core::Executor& executor, int64_t position) {
  if (!needed() || position == 0) return nullptr;
  if (PrefixState known = at(position)) return known;
  const std::shared_ptr<float> state = executor.make_state();
  executor.save_state(stream_, {state.get(), static_cast<size_t>(elements_)}, position);
  insert(position, state);
  return state;
}

void StateSnapshots::insert(int64_t position, PrefixState state) {
  snapshots_.insert(std::ranges::lower_bound(snapshots_, position, {}, &Snapshot::position),
                    {position, std::move(state)});
  const auto most =
      std::clamp(static_cast<size_t>(kMaxBytes / (elements_ * static_cast<int64_t>(sizeof(float)))), kMin, kMax);
  if (snapshots_.size() <= most) return;
  size_t least = 0;
  int64_t least_gap = INT64_MAX;
  for (size_t i = 0; i + 1 < snapshots_.size(); ++i) {
    const int64_t gap = snapshots_[i + 1].position - (i > 0 ? snapshots_[i - 1].position : 0);
    if (gap < least_gap) least = i, least_gap = gap;
  }
  snapshots_.erase(snapshots_.begin() + static_cast<std::ptrdiff_t>(least));
}

void StateSnapshots::drop_behind(int64_t position) {
  std::erase_if(snapshots_, [position](const Snapshot& snapshot) { return snapshot.position > position; });
}

int64_t StateSnapshots::last_before(int64_t position) const {
  const auto behind = std::ranges::upper_bound(snapshots_, position, {}, &Snapshot::position);
  return behind == snapshots_.begin() ? 0 : std::prev(behind)->position;
}

PrefixState StateSnapshots::at(int64_t position) const {
  const auto found = std::ranges::find(snapshots_, position, &Snapshot::position);
  return found == snapshots_.end() ? nullptr : found->state;
}

PrefixStates StateSnapshots::all() const {
  PrefixStates states;
  for (const Snapshot& snapshot : snapshots_) states.emplace(snapshot.position, snapshot.state);
  return states;
}

void StateSnapshots::adopt(core::Executor& executor, int64_t position, PrefixState state) {
  executor.load_state(stream_, floats(state), position);
  if (!at(position)) insert(position, std::move(state));
}

} // namespace ridge::engine
