#include "engine/sequences/view.h"

#include "engine/sequences/admission.h"

#include <algorithm>
#include <vector>

namespace ridge::engine {

api::Sequences describe_sequences(const Streams& streams, std::span<const SequencePointer> waiting,
                                  const SharedPrefixes& prefixes, int64_t context, double now) {
  using State = api::Sequences::State;
  api::Sequences all;
  all.context = context;
  const auto row_of = [](const ScheduledSequence& sequence) {
    api::Sequences::Row row;
    row.number = sequence.number_;
    row.priority = sequence.request_.priority;
    row.prompt_tokens = sequence.prompt();
    row.cached_tokens = sequence.cached_;
    row.answer_tokens = sequence.generated_;
    row.tokens_per_s = sequence.generation_.tokens_per_second();
    return row;
  };
  for (const Stream& stream : streams) {
    all.streams.push_back({stream.sequence != nullptr, stream.cache.size()});
    if (!stream.sequence) continue;
    api::Sequences::Row row = row_of(*stream.sequence);
    row.stream = stream.number;
    row.evaluated_tokens = stream.cache.size();
    row.state = stream.sequence->text_done(stream.cache.size()) ? State::writing : State::reading;
    all.rows.push_back(row);
  }
  std::vector<SequencePointer> sorted(waiting.begin(), waiting.end());
  std::ranges::sort(sorted, TurnPolicy::before, waiting_of);
  for (const SequencePointer& sequence : sorted) {
    api::Sequences::Row row = row_of(*sequence);
    row.evaluated_tokens = sequence->evaluated_;
    row.state = sequence->preempted_ > 0 ? State::preempted : State::waiting;
    row.seconds_waiting = now - sequence->waits_since_;
    all.rows.push_back(row);
  }
  prefixes.describe(all);
  return all;
}

} // namespace ridge::engine
