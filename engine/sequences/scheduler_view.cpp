// Describes the scheduler's state for display.
#include "engine/sequences/scheduler.h"

#include <algorithm>

namespace ridge::engine {

api::Sequences Scheduler::sequences() const {
  if (driven_by_caller_) {
    const std::scoped_lock lock(mutex_);
    return describe();
  }
  snapshot_requested_ = true;
  const std::scoped_lock lock(mutex_);
  return snapshot_;
}

// Requires the lock, on the thread that runs steps.
api::Sequences Scheduler::describe() const {
  using State = api::Sequences::State;
  api::Sequences all;
  all.context = executor_.config().context;
  const auto row_of = [](const Sequence& sequence) {
    api::Sequences::Row row;
    row.number = sequence.number_;
    row.priority = sequence.request_.priority;
    row.prompt_tokens = std::ssize(sequence.request_.prompt);
    row.cached_tokens = sequence.cached_;
    row.answer_tokens = sequence.generated_;
    row.tokens_per_s = sequence.generation_.tokens_per_second();
    return row;
  };
  for (const Stream& stream : streams_) {
    all.streams.push_back({stream.sequence != nullptr, stream.cache.size()});
    if (!stream.sequence) continue;
    api::Sequences::Row row = row_of(*stream.sequence);
    row.stream = static_cast<int32_t>(std::ssize(all.streams)) - 1;
    row.evaluated_tokens = stream.cache.size();
    row.state = stream.sequence->text_done(stream.cache.size()) ? State::writing : State::reading;
    all.rows.push_back(row);
  }
  std::vector<std::shared_ptr<Sequence>> waiting = waiting_;
  std::ranges::sort(waiting, TurnPolicy::before, waiting_of);
  const double now = turns_.now();
  for (const auto& sequence : waiting) {
    api::Sequences::Row row = row_of(*sequence);
    row.evaluated_tokens = sequence->evaluated_;
    row.state = sequence->preempted_ > 0 ? State::preempted : State::waiting;
    row.seconds_waiting = now - sequence->waits_since_;
    all.rows.push_back(row);
  }
  if (prefixes_) prefixes_->describe(all);
  return all;
}

} // namespace ridge::engine
