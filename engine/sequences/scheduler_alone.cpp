// A sequence that generates alone: the executor chooses tokens, and steps check draft tokens.
#include "engine/sequences/scheduler.h"

#include <algorithm>
#include <utility>

namespace ridge::engine {

Scheduler::Stream* Scheduler::sole_running_stream() {
  Stream* only = nullptr;
  for (Stream& stream : streams_) {
    if (!stream.sequence) continue;
    if (only) return nullptr;
    only = &stream;
  }
  return only;
}

bool Scheduler::has_other_work() const {
  const std::scoped_lock lock(mutex_);
  return stopping_ || has_free_job() || next_start().sequence;
}

// Called before a stream reads its text. A speculator that reads hidden rows follows it if it is alone, unless missing
// rows would require evaluating much text again or it cannot read the text's pictures.
void Scheduler::attach_speculator(Stream& stream) {
  if (speculated_stream_ == number_of(stream)) speculated_stream_ = -1;
  if (!speculator_ || !speculator_->reads_rows() || sole_running_stream() != &stream) return;
  if (!speculator_->select(number_of(stream), stream.sequence->pictures())) return;
  const std::span<const int32_t> tokens = stream.sequence->tokens_, marked = stream.sequence->marked();
  const int64_t known = speculator_->resume(tokens), usable = stream.cache.usable(marked.first(marked.size() - 1));
  if (usable - known >= kWorthKeeping) return;
  const bool goes_on = stream.sequence->evaluated_ > 0; // it must keep exactly its rows
  if (!goes_on && executor_.can_resume_at(number_of(stream), known)) stream.cache.keep(known);
  speculated_stream_ = number_of(stream);
}

// Passes the hidden rows of the `count` tokens before position `end`, which begin at row `first` of the last step.
void Scheduler::pass_hidden_rows(int32_t stream, int64_t first, const Sequence& sequence, int64_t end, int64_t count) {
  if (speculated_stream_ != stream) return;
  const int64_t width = program_.values[program_.hidden].width;
  speculator_->evaluated(std::span(sequence.tokens_).first(end),
                         executor_.hidden().subspan(first * width, count * width));
}

// Whether the executor chooses the token after the piece and later ones without the host.
bool Scheduler::can_decode(const Piece& piece) {
  if (!piece.wanted || piece.guesses > 0 || piece.all) return false;
  const Stream& stream = streams_[piece.stream];
  const SequenceRequest& request = stream.sequence->request_;
  if (request.limit == 0 || request.constraint || request.keep_choices) return false;
  // Positions after a picture are different.
  if (request.pictures.at(stream.cache.size() + std::ssize(piece.tokens) - 1)) return false;
  return sole_running_stream() && !has_other_work() && executor_.can_chain(stream.sequence->sampler_->params());
}

// Takes the token that the executor chooses behind those that it evaluates. It evaluates that one at once, unless it is
// the last, draft tokens go with it, or other sequences wait; these start then.
void Scheduler::await() {
  Stream& stream = *sole_running_stream();
  Sequence& sequence = *stream.sequence;
  const int64_t position = stream.cache.size();
  const bool ahead = sequence.generated_ + 1 != sequence.request_.limit && position < executor_.config().context &&
                     !has_other_work() && draft_length(stream, 1, most_guesses(sequence, 1, 1)) == 0;
  const double start = turns_.now(), bytes = bytes_of(evaluating_, position - evaluating_, 1, 1);
  if (ahead) {
    const auto place = static_cast<int32_t>(position), number = number_of(stream), output = 0;
    executor_.submit({{&core::kChosenToken, 1}, {&place, 1}, {&number, 1}, {&output, 1}},
                     {.chain = core::Chain::resume});
  }
  const int32_t token = executor_.wait()[0];
  const double seconds = turns_.now() - start;
  if (token < 0) core::throw_unusable_logits();
  stream.last_used = ++step_;
  sequence.generation_ += {1, seconds, bytes};
  count_step(seconds, bytes);
  if (speculator_) speculator_->record_step_time(evaluating_, seconds);
  pass_hidden_rows(number_of(stream), 0, sequence, position, evaluating_);
  has_pending_token_ = ahead;
  evaluating_ = ahead ? 1 : 0;
  if (ahead) stream.cache.evaluated({&token, 1});
  sequence.sampler_->accept_drawn(token);
  append_token(stream, token, std::nullopt);
}

// Without guesses the executor also chooses the next token, which await() takes.
void Scheduler::decode(const Piece& piece) {
  Stream& stream = streams_[piece.stream];
  PlacedBatch batch;
  for (int64_t i = piece.known() - 1; i < std::ssize(piece.tokens); ++i)
    batch.outputs.push_back(static_cast<int32_t>(i));
  batch.append(piece.tokens, stream.cache.size(), piece.stream, nullptr);
  const double start = turns_.now(), bytes = bytes_of({&piece, 1});
  executor_.submit(batch.batch(program_), {.chain = core::Chain::resume, .guesses = piece.guesses});
  if (piece.guesses == 0) {
    stream.cache.evaluated(piece.tokens);
    evaluating_ = std::ssize(piece.tokens);
    has_pending_token_ = true;
    return;
  }
  const std::span<const int32_t> chosen = executor_.wait();
  const double seconds = turns_.now() - start;
  stream.last_used = ++step_;
  stream.sequence->generation_ += {0, seconds, bytes};
  count_step(seconds, bytes);
  speculator_->record_step_time(std::ssize(piece.tokens), seconds);
  choose(piece, 0, chosen);
}

int64_t Scheduler::draft_length(const Stream& stream, int64_t known, int64_t most) {
  const Sequence& sequence = *stream.sequence;
  if (speculator_ && speculator_->reads_rows() && speculated_stream_ != number_of(stream)) return 0;
  if (!speculator_ || most <= 0 || sequence.generated_ == 0) return 0; // the first token does not wait for a drafter
  if (guessed_for_ != sequence.number_) {
    speculator_->begin(sequence.tokens_);
    guessed_for_ = sequence.number_;
  }
  return speculator_->draft_length(sequence.tokens_, known, most);
}

// `coming` tokens of the step are not chosen yet.
int64_t Scheduler::most_guesses(const Sequence& sequence, int64_t known, int64_t coming) const {
  const core::ExecutorConfig& config = executor_.config();
  const int64_t room = config.context - std::ssize(sequence.tokens_) - coming;
  const int64_t most = std::min({config.max_outputs - 1, config.max_batch - known, room});
  const int64_t limit = sequence.request_.limit;
  return limit < 0 ? most : std::min(most, limit - sequence.generated_ - coming - 1);
}

// Text that the constraint forces needs no drafter.
std::vector<int32_t> Scheduler::forced_guesses(const Sequence& sequence, int64_t known, int64_t most) {
  if (!speculator_ || !sequence.request_.constraint || most <= 0) return {};
  std::vector<int32_t> guesses = sequence.request_.constraint->forced(std::min(most, kMaxGuesses));
  if (!guesses.empty()) guesses.resize(speculator_->worth_forced(known, std::ssize(guesses)));
  return guesses;
}

void Scheduler::add_guesses(Piece& piece) {
  const Stream& stream = streams_[piece.stream];
  Sequence& sequence = *stream.sequence;
  const int64_t known = std::ssize(piece.tokens), most = most_guesses(sequence, known, 0);
  std::vector<int32_t> guesses = forced_guesses(sequence, known, most);
  if (guesses.empty()) {
    if (draft_length(stream, known, most) == 0) return;
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

// Called after a step with `right` correct guesses. A recurrent state can only return to its mark, so the correct
// tokens are evaluated again with the next step.
void Scheduler::commit_guesses(const Piece& piece, const Sequence& sequence, int64_t right, bool ended) {
  StreamCache& cache = streams_[piece.stream].cache;
  const int64_t count = piece.known() + right;
  pass_hidden_rows(piece.stream, 0, sequence, cache.size() + count, count);
  if (!program_.states.empty() && right < piece.guesses)
    executor_.restore_mark();
  else
    cache.evaluated(std::span(piece.tokens).first(count));
  speculator_->record_acceptance(ended ? right : piece.guesses, right);
}

} // namespace ridge::engine
