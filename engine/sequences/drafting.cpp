#include "engine/sequences/drafting.h"

#include <algorithm>
#include <utility>

namespace ridge::engine {

void Drafting::attach(Stream& stream, bool alone) {
  detach(stream.number);
  if (!speculator_ || !speculator_->reads_rows() || !alone) return;
  const ScheduledSequence& sequence = *stream.sequence;
  if (!speculator_->select(stream.number, sequence.pictures())) return;
  const std::span<const int32_t> marked = sequence.marked();
  const int64_t known = speculator_->resume(sequence.tokens_);
  if (stream.cache.usable(marked.first(marked.size() - 1)) - known >= kWorthKeeping) return;
  const bool goes_on = sequence.evaluated_ > 0; // it must keep exactly its rows
  if (!goes_on && executor_.can_resume_at(stream.number, known)) stream.cache.keep(known);
  followed_ = stream.number;
}

void Drafting::pass_hidden_rows(const Stream& stream, const ScheduledSequence& sequence, int64_t first, int64_t end,
                                int64_t count) {
  if (followed_ != stream.number) return;
  const int64_t width = program_.values[program_.hidden].width;
  speculator_->evaluated(std::span(sequence.tokens_).first(end),
                         executor_.hidden().subspan(first * width, count * width));
}

int64_t Drafting::length(const Stream& stream, int64_t known, int64_t coming) {
  return length_up_to(stream, known, most(*stream.sequence, known, coming));
}

int64_t Drafting::length_up_to(const Stream& stream, int64_t known, int64_t most) {
  const ScheduledSequence& sequence = *stream.sequence;
  if (!speculator_ || most <= 0 || sequence.generated_ == 0) return 0; // the first token does not wait for a drafter
  if (speculator_->reads_rows() && followed_ != stream.number) return 0;
  if (begun_for_ != sequence.number_) {
    speculator_->begin(sequence.tokens_);
    begun_for_ = sequence.number_;
  }
  return speculator_->draft_length(sequence.tokens_, known, most);
}

int64_t Drafting::most(const ScheduledSequence& sequence, int64_t known, int64_t coming) const {
  const core::ExecutorConfig& config = executor_.config();
  const int64_t room = config.context - std::ssize(sequence.tokens_) - coming;
  const int64_t most = std::min({config.max_outputs - 1, config.max_batch - known, room});
  const int64_t limit = sequence.request_.limit;
  return limit < 0 ? most : std::min(most, limit - sequence.generated_ - coming - 1);
}

// Text that the constraint forces needs no drafter.
std::vector<int32_t> Drafting::forced(const ScheduledSequence& sequence, int64_t known, int64_t most) {
  if (!sequence.request_.constraint || most <= 0) return {};
  std::vector<int32_t> guesses = sequence.request_.constraint->forced(std::min(most, kMaxGuesses));
  if (!guesses.empty()) guesses.resize(speculator_->worth_forced(known, std::ssize(guesses)));
  return guesses;
}

void Drafting::add_guesses(const Stream& stream, Piece& piece) {
  if (!speculator_) return;
  ScheduledSequence& sequence = *stream.sequence;
  const int64_t known = std::ssize(piece.tokens), room = most(sequence, known, 0);
  std::vector<int32_t> guesses = forced(sequence, known, room);
  if (guesses.empty()) {
    if (length_up_to(stream, known, room) == 0) return;
    guesses = speculator_->draft();
  }
  const std::function<bool(int32_t)>& is_end = sequence.request_.is_end;
  // Numbers below 0 are picture tokens.
  const auto unusable = [&](int32_t token) { return token < 0 || (is_end && is_end(token)); };
  guesses.erase(std::ranges::find_if(guesses, unusable), guesses.end());
  if (guesses.empty()) return;
  piece.guesses = std::ssize(guesses);
  piece.tokens.insert(piece.tokens.end(), guesses.begin(), guesses.end());
  ++sequence.guesses_.steps;
  for (int64_t i = 0; i < piece.guesses; ++i) ++sequence.guesses_.made[i];
  if (!program_.states.empty()) executor_.mark_state(piece.stream);
}

void Drafting::commit(Stream& stream, const Piece& piece, const ScheduledSequence& sequence, int64_t right,
                      bool ended) {
  const int64_t count = piece.known() + right;
  pass_hidden_rows(stream, sequence, 0, stream.cache.size() + count, count);
  if (!program_.states.empty() && right < piece.guesses)
    executor_.restore_mark();
  else
    stream.cache.evaluated(std::span(piece.tokens).first(count));
  speculator_->record_acceptance(ended ? right : piece.guesses, right);
}

} // namespace ridge::engine
