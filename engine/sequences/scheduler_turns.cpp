// Decides which waiting sequence starts next, and on which stream.
#include "engine/sequences/scheduler.h"

#include <algorithm>
#include <ranges>
#include <tuple>
#include <utility>

namespace ridge::engine {

void Scheduler::end_cancelled() {
  for (Stream& stream : streams_)
    if (stream.sequence && stream.sequence->cancelled()) end(stream, StopReason::interrupted);
  std::vector<std::shared_ptr<Sequence>> cancelled;
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(waiting_, [&](const std::shared_ptr<Sequence>& sequence) {
      if (!sequence->cancelled()) return false;
      cancelled.push_back(sequence);
      return true;
    });
  }
  for (const auto& sequence : cancelled) finish(sequence, StopReason::interrupted);
}

void Scheduler::start_waiting() {
  for (;;) {
    Start next;
    {
      const std::scoped_lock lock(mutex_);
      next = next_start();
      if (!next.sequence) return;
    }
    const double begin = turns_.now();
    if (next.stream >= 0 && !preempt(streams_[next.stream])) return;
    {
      const std::scoped_lock lock(mutex_);
      std::erase(waiting_, next.sequence);
    }
    start(next);
    if (const double now = turns_.now(); next.sequence->preempted_ > 0 || next.stream >= 0)
      turns_.exchanged(now - begin, now);
  }
}

// Requires the lock. A sequence that waits for a certain stream holds up no other.
Scheduler::Start Scheduler::next_start() const {
  const auto is_free = [](const Stream& stream) { return !stream.sequence; };
  const bool any_is_free = std::ranges::any_of(streams_, is_free);
  const double now = turns_.now();
  const auto first_of = [&](auto&& sequences) -> Start {
    if (sequences.begin() == sequences.end()) return {};
    const auto since = [](const std::shared_ptr<Sequence>& s) { return std::pair(s->waits_since_, s->number_); };
    Start first{.sequence = *std::ranges::min_element(sequences, {}, since)};
    first.late = turns_.is_late(waiting_of(first.sequence), now);
    if (!first.late) first.sequence = *std::ranges::min_element(sequences, TurnPolicy::before, waiting_of);
    return first;
  };
  Start next = first_of(waiting_ | std::views::filter([&](const std::shared_ptr<Sequence>& sequence) {
                          const int32_t wanted = sequence->request_.stream;
                          return wanted < 0 ? any_is_free : is_free(streams_[wanted]);
                        }));
  if (next.sequence) return next;
  next = first_of(waiting_);
  if (!next.sequence || !prefixes_) return {};
  // The victim has the least priority, then the longest time on its stream, then the latest submission.
  std::tuple<int64_t, double, int64_t> least;
  for (int32_t i = 0; i < std::ssize(streams_); ++i) {
    if (const int32_t wanted = next.sequence->request_.stream; is_free(streams_[i]) || (wanted >= 0 && i != wanted))
      continue;
    const Turn& turn = streams_[i].turn;
    const int64_t priority = streams_[i].sequence->request_.priority;
    if (streams_[i].started == step_) continue;
    if (!turns_.takes(waiting_of(next.sequence), next.late, turn, priority, now)) continue;
    const std::tuple rank(-priority, turn.start, -static_cast<int64_t>(streams_[i].sequence->number_));
    if (next.stream < 0 || rank < least) next.stream = i, least = rank;
  }
  return next.stream >= 0 ? next : Start();
}

// Returns false if the rows cannot be kept; the sequence then keeps its stream for another turn.
bool Scheduler::preempt(Stream& stream) {
  std::optional<PrefixStore::Hold> rows;
  try {
    if (stream.cache.size() > 0) rows = prefixes_->hold(stream.cache);
  } catch (const std::exception& error) {
    give_up_prefixes(error.what());
  }
  const double now = turns_.now();
  if (stream.cache.size() > 0 && !rows) {
    stream.turn.kept_until = now + turns_.turn_seconds();
    return false;
  }
  decoding_ = false;
  Sequence& sequence = *stream.sequence;
  sequence.evaluated_ = stream.cache.size();
  sequence.evaluated_rows_ = std::move(rows);
  sequence.waits_since_ = now;
  ++sequence.preempted_;
  const std::scoped_lock lock(mutex_);
  ++counts_.preemptions;
  counts_.stored_bytes = prefixes_->bytes();
  positions_[number_of(stream)] = -1;
  waiting_.push_back(std::exchange(stream.sequence, nullptr));
  return true;
}

void Scheduler::start(const Start& next) {
  Sequence& sequence = *next.sequence;
  const std::span<const int32_t> tokens = sequence.marked(), own = tokens.first(sequence.evaluated_);
  const int32_t wanted = sequence.request_.stream;
  Stream& stream = wanted >= 0 ? streams_[wanted] : best_stream(sequence.reuses() ? tokens : own);
  stream.sequence = next.sequence;
  sequence.start(program_.vocab, turns_.now());
  const int64_t branch = prefixes_ ? use_prefixes(stream) : 0;
  if (!sequence.reuses()) stream.cache.keep(sequence.evaluated_);
  attach_speculator(stream);
  if (sequence.pictures()) stream.cache.keep(sequence.pictures()->whole(stream.cache.common(tokens)));
  const int64_t same = stream.cache.resume(tokens);
  if (!program_.adapters.empty()) executor_.set_adapters(number_of(stream), sequence.adapters_);
  if (branch > 0) stream.cache.want_copy(branch);
  const double now = turns_.now();
  stream.started = step_;
  stream.turn = {.start = now, .late = next.late};
  turns_.started(next.late, now);
  if (same < sequence.evaluated_) { // its rows are lost: read all again
    sequence.text_ = std::ssize(sequence.tokens_);
    sequence.must_reevaluate_ = true;
  }
  const int64_t prompt = std::ssize(sequence.request_.prompt);
  sequence.read_ = same;
  if (sequence.stream_.exchange(number_of(stream)) < 0) sequence.resumed_ = same;
  count_cached(sequence, std::min(same, prompt) - std::min(sequence.evaluated_, prompt));
  const std::scoped_lock lock(mutex_);
  if (sequence.preempted_ == 0) counts_.prompt_tokens += prompt;
  positions_[number_of(stream)] = same;
}

// The free stream with the longest usable prefix. If that is short or the prefix cache has more, the least recently
// used one.
Scheduler::Stream& Scheduler::best_stream(std::span<const int32_t> text) {
  Stream* best = nullptr;
  std::pair<int64_t, int64_t> best_score;
  const int64_t elsewhere = text.empty() ? 0 : stored(text);
  for (Stream& stream : streams_) {
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
