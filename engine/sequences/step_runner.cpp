#include "engine/sequences/step_runner.h"

#include "engine/sequences/filling.h"

#include <algorithm>
#include <utility>

namespace ridge::engine {

void StepRunner::step() {
  run_step();
  announcer_.announce(); // after an exception all sequences end, which wakes their readers
}

void StepRunner::run_step() {
  if (awaited_ > 0) return await();
  if (is_diffusion_) return fill();
  for (Stream& stream : streams_)
    if (stream.sequence && std::ssize(stream.sequence->tokens_) > executor_.config().context)
      hooks_.end(stream, StopReason::context_full, nullptr);
  std::vector<Piece> pieces = planner_.plan([&](Stream& stream) {
    const SharedPrefixes::Shared shared = prefixes_.share(stream);
    if (shared.gained > 0) ledger_.count_cached(*stream.sequence, shared.gained);
    return shared.waits;
  });
  if (pieces.empty()) return;
  const bool alone = sole_running(streams_) && !pieces[0].reading && pieces[0].wanted;
  if (alone) drafting_.add_guesses(streams_[pieces[0].stream], pieces[0]);
  if (alone && chained_)
    decode(pieces[0]);
  else
    evaluate(pieces);
}

void StepRunner::evaluate(std::span<const Piece> pieces) {
  PlacedBatch batch = planner_.batch_of(pieces);
  const int64_t tokens = std::ssize(batch.tokens);
  chained_ = can_chain(pieces[0]);
  const std::vector<const core::Sampler*> samplers = samplers_of(pieces);
  const double start = clock_(), bytes = planner_.bytes_of(pieces);
  executor_.submit(batch.batch(program_, &executor_),
                   {.samplers = samplers, .chain = chained_ ? core::Chain::begin : core::Chain::none});
  const std::span<const int32_t> chosen = executor_.wait();
  const double seconds = clock_() - start;
  ++steps_;
  int64_t row = 0, generated = 0;
  for (const Piece& piece : pieces) {
    Stream& stream = streams_[piece.stream];
    ScheduledSequence& sequence = *stream.sequence;
    const int64_t count = std::ssize(piece.tokens);
    if (piece.guesses == 0) drafting_.pass_hidden_rows(stream, sequence, row, stream.cache.size() + count, count);
    row += count;
    const double share = bytes * static_cast<double>(count) / static_cast<double>(tokens);
    if (piece.reading) {
      sequence.prompt_ += {count, seconds, share};
    } else {
      sequence.generation_ += {0, seconds, share};
      generated += count;
    }
    if (piece.guesses == 0) stream.cache.evaluated(sequence.marked().subspan(stream.cache.size(), count));
    if (piece.reading) sequence.read_ = stream.cache.size();
    stream.last_used = steps_;
  }
  count_step(seconds, bytes);
  if (!pieces[0].reading) planner_.record_step(tokens - generated, seconds);
  if (pieces.size() == 1 && !pieces[0].reading) drafting_.record_step_time(tokens, seconds);
  int64_t output = 0;
  for (const Piece& piece : pieces) {
    if (piece.all) describe_prompt(piece, output);
    output += piece.outputs();
    if (!piece.wanted) continue;
    const int64_t next = output - piece.guesses - 1;
    const bool known = !samplers.empty() && samplers[next];
    choose(piece, next, known ? chosen.subspan(next, 1) : std::span<const int32_t>());
  }
}

void StepRunner::describe_prompt(const Piece& piece, int64_t output) {
  ScheduledSequence& sequence = *streams_[piece.stream].sequence;
  int64_t place = streams_[piece.stream].cache.size() - std::ssize(piece.tokens) + 1;
  for (size_t i = 0; i < piece.tokens.size() && place < sequence.prompt(); ++i, ++place)
    sequence.describe_prompt_token(place, executor_.logits(output + static_cast<int64_t>(i)));
}

// Null where the host samples; empty if it samples all.
std::vector<const core::Sampler*> StepRunner::samplers_of(std::span<const Piece> pieces) const {
  std::vector<const core::Sampler*> samplers;
  for (const Piece& piece : pieces) {
    const ScheduledSequence& sequence = *streams_[piece.stream].sequence;
    const bool can = piece.guesses == 0 && !piece.all && !sequence.request_.constraint &&
                     !sequence.request_.keep_choices && (chained_ || executor_.can_choose(sequence.sampler_->params()));
    samplers.insert(samplers.end(), piece.outputs(), can ? &*sequence.sampler_ : nullptr);
  }
  if (std::ranges::none_of(samplers, [](const core::Sampler* sampler) { return sampler != nullptr; })) return {};
  return samplers;
}

void StepRunner::count_step(double seconds, double bytes) {
  ledger_.count([&](SchedulerCounts& counts) {
    ++counts.steps;
    counts.seconds += seconds;
    counts.bytes += bytes;
  });
}

// Takes the next token, and one more after each right guess: those in `chosen`, or else sampled from the outputs from
// `output` on.
void StepRunner::choose(const Piece& piece, int64_t output, std::span<const int32_t> chosen) {
  Stream& stream = streams_[piece.stream];
  const SequencePointer running = stream.sequence; // keeps it alive if it ends here
  ScheduledSequence& sequence = *running;
  if (sequence.request_.limit == 0) return hooks_.end(stream, StopReason::limit, nullptr);
  const auto guesses = std::span(piece.tokens).last(piece.guesses);
  int64_t right = 0;
  try {
    for (bool more = true; more;) {
      std::optional<core::TokenChoice> choice;
      int32_t token;
      if (chosen.empty()) {
        token = sequence.draw(executor_.logits(output + right), choice);
        sequence.sampler_->accept(token);
      } else {
        token = chosen[right];
        if (token < 0) core::throw_unusable_logits();
        sequence.sampler_->accept_drawn(token);
      }
      sequence.generation_.tokens += !piece.reading;
      more = right < piece.guesses && token == guesses[right];
      if (more) ++sequence.guesses_.right[right++];
      append(stream, token, std::move(choice));
      more = more && stream.sequence;
    }
  } catch (...) {
    hooks_.end(stream, StopReason::interrupted, std::current_exception());
  }
  if (piece.guesses > 0) drafting_.commit(stream, piece, sequence, right, !stream.sequence);
}

void StepRunner::append(Stream& stream, int32_t token, std::optional<core::TokenChoice> choice) {
  const std::optional<StopReason> stop = stream.sequence->append(token, std::move(choice));
  if (stop)
    hooks_.end(stream, *stop, nullptr);
  else
    announcer_.add(stream.sequence);
}

// A diffusion model's step: fills the text that waited longest. A token is delivered once all before it are decided.
void StepRunner::fill() {
  Stream* next = nullptr;
  for (Stream& stream : streams_)
    if (stream.sequence && (!next || stream.last_used < next->last_used)) next = &stream;
  if (!next) return;
  Stream& stream = *next;
  const SequencePointer running = stream.sequence; // keeps it alive if it ends here
  ScheduledSequence& sequence = *running;
  try {
    if (sequence.request_.limit == 0) return hooks_.end(stream, StopReason::limit, nullptr);
    if (!begin_canvas(sequence, executor_.config().context))
      return hooks_.end(stream, StopReason::context_full, nullptr);
    Canvas& canvas = *sequence.canvas_;
    const double start = clock_();
    const double bytes = planner_.bytes_of(std::ssize(canvas.tokens()), 0, 1, std::ssize(canvas.open()));
    fill_canvas(executor_, stream);
    stream.last_used = ++steps_;
    const double seconds = clock_() - start;
    sequence.generation_ += {0, seconds, bytes};
    count_step(seconds, bytes);
    if (sequence.request_.on_canvas) sequence.request_.on_canvas(canvas.answer());
    while (stream.sequence && sequence.generated_ < canvas.first_open()) {
      const int64_t place = sequence.generated_;
      const int32_t token = canvas.answer()[place];
      sequence.sampler_->accept(token);
      ++sequence.generation_.tokens;
      append(stream, token, std::move(canvas.choice(place)));
    }
    if (stream.sequence && canvas.done())
      hooks_.end(stream, sequence.request_.limit < 0 ? StopReason::limit : StopReason::context_full, nullptr);
  } catch (...) {
    if (stream.sequence) hooks_.end(stream, StopReason::interrupted, std::current_exception());
  }
}

// Whether the executor chooses the token after the piece and later ones without the host.
bool StepRunner::can_chain(const Piece& piece) {
  if (!piece.wanted || piece.guesses > 0 || piece.all) return false;
  const Stream& stream = streams_[piece.stream];
  const SequenceRequest& request = stream.sequence->request_;
  if (request.limit == 0 || request.constraint || request.keep_choices) return false;
  // Positions after a picture are different.
  if (request.pictures.at(stream.cache.size() + std::ssize(piece.tokens) - 1)) return false;
  return sole_running(streams_) && !hooks_.has_other_work() && executor_.can_chain(stream.sequence->sampler_->params());
}

// Takes the token that the executor chooses behind those that it evaluates. It evaluates that one at once, unless it is
// the last, draft tokens go with it, or other sequences wait; these start then.
void StepRunner::await() {
  Stream& stream = *sole_running(streams_);
  const SequencePointer running = stream.sequence; // keeps it alive if it ends here
  ScheduledSequence& sequence = *running;
  const int64_t position = stream.cache.size(), evaluated = awaited_;
  const bool ahead = sequence.generated_ + 1 != sequence.request_.limit && position < executor_.config().context &&
                     !hooks_.has_other_work() && drafting_.length(stream, 1, 1) == 0;
  const double start = clock_(), bytes = planner_.bytes_of(evaluated, position - evaluated, 1, 1);
  if (ahead) {
    const auto place = static_cast<int32_t>(position), output = 0;
    executor_.submit({{&core::kChosenToken, 1}, {&place, 1}, {&stream.number, 1}, {&output, 1}},
                     {.chain = core::Chain::resume});
  }
  const int32_t token = executor_.wait()[0];
  const double seconds = clock_() - start;
  if (token < 0) core::throw_unusable_logits();
  stream.last_used = ++steps_;
  sequence.generation_ += {1, seconds, bytes};
  count_step(seconds, bytes);
  drafting_.record_step_time(evaluated, seconds);
  drafting_.pass_hidden_rows(stream, sequence, 0, position, evaluated);
  awaited_ = ahead ? 1 : 0;
  if (ahead) stream.cache.evaluated({&token, 1});
  sequence.sampler_->accept_drawn(token);
  append(stream, token, std::nullopt);
}

// Without guesses the executor also chooses the next token, which await() takes.
void StepRunner::decode(const Piece& piece) {
  Stream& stream = streams_[piece.stream];
  PlacedBatch batch;
  for (int64_t i = piece.known() - 1; i < std::ssize(piece.tokens); ++i)
    batch.outputs.push_back(static_cast<int32_t>(i));
  batch.append(piece.tokens, stream.cache.size(), piece.stream, nullptr);
  const double start = clock_(), bytes = planner_.bytes_of({&piece, 1});
  executor_.submit(batch.batch(program_), {.chain = core::Chain::resume, .guesses = piece.guesses});
  if (piece.guesses == 0) {
    stream.cache.evaluated(piece.tokens);
    awaited_ = std::ssize(piece.tokens);
    return;
  }
  const std::span<const int32_t> chosen = executor_.wait();
  const double seconds = clock_() - start;
  stream.last_used = ++steps_;
  stream.sequence->generation_ += {0, seconds, bytes};
  count_step(seconds, bytes);
  drafting_.record_step_time(std::ssize(piece.tokens), seconds);
  choose(piece, 0, chosen);
}

} // namespace ridge::engine
