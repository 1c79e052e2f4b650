#include "engine/sequences/admission.h"

#include <algorithm>
#include <ranges>
#include <tuple>
#include <utility>

namespace ridge::engine {

Waiting waiting_of(const SequencePointer& sequence) {
  return {sequence->request_.priority, sequence->waits_since_, sequence->number_};
}

Start next_start(const TurnPolicy& turns, std::span<const SequencePointer> waiting, const Streams& streams,
                 uint64_t step, bool may_preempt) {
  if (waiting.empty()) return {};
  const auto is_free = [](const Stream& stream) { return !stream.sequence; };
  const bool any_is_free = std::ranges::any_of(streams, is_free);
  const double now = turns.now();
  const auto first_of = [&](auto&& sequences) -> Start {
    if (sequences.begin() == sequences.end()) return {};
    const auto since = [](const SequencePointer& s) { return std::pair(s->waits_since_, s->number_); };
    Start first{.sequence = *std::ranges::min_element(sequences, {}, since)};
    first.late = turns.is_late(waiting_of(first.sequence), now);
    if (!first.late) first.sequence = *std::ranges::min_element(sequences, TurnPolicy::before, waiting_of);
    return first;
  };
  Start next = first_of(waiting | std::views::filter([&](const SequencePointer& sequence) {
                          const int32_t wanted = sequence->request_.stream;
                          return wanted < 0 ? any_is_free : is_free(streams[wanted]);
                        }));
  if (next.sequence) return next;
  next = first_of(waiting);
  if (!may_preempt) return {};
  // The victim has the least priority, then the longest time on its stream, then the latest submission.
  std::tuple<int64_t, double, int64_t> least;
  for (const Stream& stream : streams) {
    const int32_t wanted = next.sequence->request_.stream;
    if (is_free(stream) || (wanted >= 0 && stream.number != wanted) || stream.started == step) continue;
    const int64_t priority = stream.sequence->request_.priority;
    if (!turns.takes(waiting_of(next.sequence), next.late, stream.turn, priority, now)) continue;
    const std::tuple rank(-priority, stream.turn.start, -static_cast<int64_t>(stream.sequence->number_));
    if (next.stream < 0 || rank < least) next.stream = stream.number, least = rank;
  }
  return next.stream >= 0 ? next : Start();
}

Stream& best_stream(Streams& streams, std::span<const int32_t> text, int64_t elsewhere) {
  Stream* best = nullptr;
  std::pair<int64_t, int64_t> best_score;
  for (Stream& stream : streams) {
    if (stream.sequence) continue;
    const int64_t common = stream.cache.usable(text);
    const bool worth =
        (common >= kWorthKeeping || 2 * common >= std::ssize(text)) && elsewhere < common + kWorthKeeping;
    const std::pair score(worth ? common : 0, -static_cast<int64_t>(stream.last_used));
    if (!best || score > best_score) best = &stream, best_score = score;
  }
  return *best;
}

} // namespace ridge::engine
