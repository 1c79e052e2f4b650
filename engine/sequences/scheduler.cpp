#include "engine/sequences/scheduler.h"

#include "core/error.h"
#include "engine/adapters/adapters.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace ridge::engine {

Scheduler::Scheduler(core::Executor& executor, const core::Program& program, std::unique_ptr<Speculator> speculator,
                     const PrefixSettings& prefixes, const Turns& turns, Driver driver)
    : executor_(executor), program_(program), prefixes_(PrefixCache::make(executor, program, prefixes)),
      keeps_prefixes_(prefixes_ != nullptr), turns_(turns), driven_by_caller_(driver == Driver::caller),
      is_diffusion_(core::sees_ahead(program)), speculator_(std::move(speculator)) {
  const core::ExecutorConfig& config = executor.config();
  if (config.max_outputs < config.streams || config.max_batch < config.streams)
    throw std::logic_error("Scheduler: an executor with fewer outputs or rows than streams");
  for (int32_t i = 0; i < config.streams; ++i)
    streams_.push_back({StreamCache(executor, program, i), nullptr, 0, 0, {}});
  positions_.assign(streams_.size(), -1);
  if (!driven_by_caller_) thread_ = std::thread([this] { run(); });
}

Scheduler::~Scheduler() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  driven_by_caller_ ? end_everything() : thread_.join();
}

void Scheduler::check_pictures(const SequenceRequest& request) const {
  if (request.pictures.empty()) return;
  if (request.keep_prompt_choices) throw_error("a prompt with images or audio has no token probabilities");
  for (const TextPictures::Place& place : request.pictures.places())
    if (place.tile->sees_ahead && place.tile->tokens > executor_.config().max_batch)
      throw_error("an image of {} tokens must be evaluated at once, but at most {} fit: raise -ub", place.tile->tokens,
                  executor_.config().max_batch);
}

std::shared_ptr<Sequence> Scheduler::submit(SequenceRequest request) {
  check_prompt(request.prompt, executor_.config().context, program_.vocab, request.pictures);
  check_pictures(request);
  check_filled(request);
  if (program_.start_token >= 0 && request.keep_prompt_choices)
    throw_error("an encoder reads the prompt as a whole: its tokens have no probabilities");
  core::validate(request.sampling, program_.vocab);
  if (request.stream >= std::ssize(streams_)) throw_error("stream {} of {}", request.stream, streams_.size());
  std::shared_ptr<Sequence> sequence(new Sequence(std::move(request)));
  sequence->adapters_ = adapter_uses(program_.adapters, sequence->request_.adapter_scales, sequence->tokens_);
  sequence->marked_ = marked_text(sequence->tokens_, program_.adapters, sequence->adapters_);
  sequence->waits_since_ = turns_.now();
  const std::scoped_lock lock(mutex_);
  if (draining_ || stopping_) throw_error("the engine is shutting down and takes no more requests");
  sequence->number_ = submitted_++;
  waiting_.push_back(sequence);
  changed_.notify_all();
  return sequence;
}

void Scheduler::drain() {
  std::unique_lock lock(mutex_);
  draining_ = true;
  changed_.notify_all();
  if (driven_by_caller_) {
    lock.unlock();
    while (advance()) continue;
    lock.lock();
    if (!kept_) keep_all(lock);
  }
  changed_.wait(lock, [&] { return kept_ && counts_.ended == static_cast<int64_t>(submitted_); });
}

Scheduler::Counts Scheduler::counts() const {
  const std::scoped_lock lock(mutex_);
  Counts counts = counts_;
  counts.waiting = std::ssize(waiting_);
  counts.running = std::ranges::count_if(positions_, [](int64_t position) { return position >= 0; });
  return counts;
}

std::vector<int64_t> Scheduler::positions() const {
  const std::scoped_lock lock(mutex_);
  return positions_;
}

void Scheduler::run() {
  while (wait_for_work()) work();
  end_everything();
}

bool Scheduler::advance() {
  const bool busy = publish_progress();
  {
    const std::scoped_lock lock(mutex_);
    if (!busy && waiting_.empty()) return false;
  }
  work();
  return true;
}

void Scheduler::work() {
  try {
    end_cancelled();
    if (!has_pending_token_) run_jobs();
    if (!has_pending_token_) start_waiting();
    step();
  } catch (...) {
    end_all(std::current_exception());
  }
}

bool Scheduler::publish_progress() {
  keep_answers();
  if (prefixes_) {
    int64_t held = 0;
    for (const Stream& stream : streams_) held += stream.cache.size();
    prefixes_->preallocate(held);
  }
  const std::scoped_lock lock(mutex_);
  for (size_t i = 0; i < streams_.size(); ++i) positions_[i] = streams_[i].sequence ? streams_[i].cache.size() : -1;
  const bool busy = std::ranges::any_of(streams_, [](const Stream& s) { return s.sequence != nullptr; });
  if (!driven_by_caller_ && (snapshot_requested_.exchange(false) || !busy)) snapshot_ = describe();
  return busy;
}

bool Scheduler::wait_for_work() {
  const bool busy = publish_progress();
  std::unique_lock lock(mutex_);
  const auto idle = [&] { return !busy && waiting_.empty() && jobs_.empty(); };
  if (idle() && draining_ && !kept_) keep_all(lock);
  if (idle()) changed_.wait(lock, [&] { return stopping_ || !idle() || (draining_ && !kept_); });
  return !stopping_;
}

void Scheduler::end_everything() {
  std::unique_lock lock(mutex_);
  const std::vector<std::shared_ptr<Sequence>> waiting = std::exchange(waiting_, {});
  jobs_.clear(); // waiting threads get an error
  lock.unlock();
  for (const auto& sequence : waiting) finish(sequence, StopReason::interrupted);
  for (Stream& stream : streams_)
    if (stream.sequence) end(stream, StopReason::interrupted);
  lock.lock();
  if (!kept_) keep_all(lock);
}

void Scheduler::step() {
  if (has_pending_token_) return await();
  if (is_diffusion_) return diffusion_step();
  std::vector<Piece> pieces = plan_step();
  if (pieces.empty()) return;
  const bool alone = sole_running_stream() && !pieces[0].reading && pieces[0].wanted;
  if (alone) add_guesses(pieces[0]);
  if (alone && decoding_)
    decode(pieces[0]);
  else
    evaluate(pieces);
}

std::vector<Scheduler::Piece> Scheduler::plan_step() {
  std::vector<Piece> pieces;
  std::vector<int32_t> reading;
  int64_t room = executor_.config().max_batch, most = room; // `most` is for pictures, which cannot be split
  int64_t outputs = executor_.config().max_outputs - std::ssize(streams_); // one per stream is reserved
  for (int32_t i = 0; i < std::ssize(streams_); ++i) {
    Stream& stream = streams_[i];
    if (!stream.sequence) continue;
    const std::vector<int32_t>& tokens = stream.sequence->tokens_;
    if (std::ssize(tokens) > executor_.config().context) {
      end(stream, StopReason::context_full);
    } else if (!stream.sequence->text_done(stream.cache.size())) {
      if (!shares_prefix(stream)) reading.push_back(i);
    } else {
      // Several tokens after a recurrent state was rolled back. Each later stream needs room for one.
      const int64_t left = std::ssize(tokens) - stream.cache.size();
      const int64_t count = std::min(left, room - (std::ssize(streams_) - 1 - i));
      const auto first = tokens.begin() + stream.cache.size();
      pieces.push_back({i, {first, first + count}, false, count == left});
      room -= count;
      most -= count;
    }
  }
  if (!pieces.empty()) room = std::min(room, share_.tokens());
  std::ranges::sort(reading, {}, [&](int32_t i) { return streams_[i].sequence->number_; });
  for (size_t i = 0; i < reading.size() && room > 0; ++i) {
    Stream& stream = streams_[reading[i]];
    const std::span<const int32_t> text = stream.sequence->text();
    const bool all = stream.sequence->request_.keep_prompt_choices && stream.sequence->generated_ == 0;
    int64_t share = std::max<int64_t>(1, room / (std::ssize(reading) - static_cast<int64_t>(i)));
    if (all) share = std::min(share, 1 + outputs);
    int64_t count = stream.cache.next_piece(text, share);
    if (const TextPictures* pictures = stream.sequence->pictures()) {
      count = pictures->end_of_part(stream.cache.size(), stream.cache.size() + count) - stream.cache.size();
      if (count > most) continue;
    }
    const auto next = text.subspan(stream.cache.size(), count);
    const bool last = stream.cache.size() + count == std::ssize(text);
    pieces.push_back({reading[i], {next.begin(), next.end()}, true, last, 0, all});
    if (all) outputs -= count - 1;
    room -= count;
    most -= count;
  }
  return pieces;
}

void Scheduler::evaluate(std::span<const Piece> pieces) {
  PlacedBatch batch;
  for (const Piece& piece : pieces) {
    const Stream& stream = streams_[piece.stream];
    for (int64_t i = 0; i < std::ssize(piece.tokens); ++i)
      if (piece.all || (piece.wanted && i + 1 >= piece.known()))
        batch.outputs.push_back(static_cast<int32_t>(std::ssize(batch.tokens) + i));
    batch.append(piece.tokens, stream.cache.size(), piece.stream, stream.sequence->pictures());
  }
  const int64_t tokens = std::ssize(batch.tokens);
  decoding_ = can_decode(pieces[0]);
  const std::vector<const core::Sampler*> samplers = samplers_of(pieces);
  const double start = turns_.now(), bytes = bytes_of(pieces);
  executor_.submit(batch.batch(program_),
                   {.samplers = samplers, .chain = decoding_ ? core::Chain::begin : core::Chain::none});
  const std::span<const int32_t> chosen = executor_.wait();
  const double seconds = turns_.now() - start;
  ++step_;
  int64_t row = 0, generated = 0;
  for (const Piece& piece : pieces) {
    Stream& stream = streams_[piece.stream];
    const int64_t count = std::ssize(piece.tokens);
    if (piece.guesses == 0) pass_hidden_rows(piece.stream, row, *stream.sequence, stream.cache.size() + count, count);
    row += count;
    const double share = bytes * static_cast<double>(count) / static_cast<double>(tokens);
    if (piece.reading) {
      stream.sequence->prompt_ += {count, seconds, share};
    } else {
      stream.sequence->generation_ += {0, seconds, share};
      generated += count;
    }
    if (piece.guesses == 0) stream.cache.evaluated(stream.sequence->marked().subspan(stream.cache.size(), count));
    if (piece.reading) stream.sequence->read_ = stream.cache.size();
    stream.last_used = step_;
  }
  count_step(seconds, bytes);
  if (!pieces[0].reading) share_.record_step(tokens - generated, seconds);
  if (speculator_ && pieces.size() == 1 && !pieces[0].reading) speculator_->record_step_time(tokens, seconds);
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

void Scheduler::describe_prompt(const Piece& piece, int64_t output) {
  Sequence& sequence = *streams_[piece.stream].sequence;
  const int64_t prompt = std::ssize(sequence.request_.prompt);
  int64_t place = streams_[piece.stream].cache.size() - std::ssize(piece.tokens) + 1;
  sequence.prompt_choices_.resize(prompt - 1);
  for (size_t i = 0; i < piece.tokens.size() && place < prompt; ++i, ++place)
    sequence.prompt_choices_[place - 1] =
        core::describe_choice(executor_.logits(output + static_cast<int64_t>(i)), sequence.tokens_[place]);
}

// Null where the host samples; empty if it samples all.
std::vector<const core::Sampler*> Scheduler::samplers_of(std::span<const Piece> pieces) const {
  std::vector<const core::Sampler*> samplers;
  for (const Piece& piece : pieces) {
    const Sequence& sequence = *streams_[piece.stream].sequence;
    const bool can = piece.guesses == 0 && !piece.all && !sequence.request_.constraint &&
                     !sequence.request_.keep_choices &&
                     (decoding_ || executor_.can_choose(sequence.sampler_->params()));
    samplers.insert(samplers.end(), piece.outputs(), can ? &*sequence.sampler_ : nullptr);
  }
  if (std::ranges::none_of(samplers, [](const core::Sampler* sampler) { return sampler != nullptr; })) return {};
  return samplers;
}

void Scheduler::count_step(double seconds, double bytes) {
  const std::scoped_lock lock(mutex_);
  ++counts_.steps;
  counts_.seconds += seconds;
  counts_.bytes += bytes;
}

// Takes the next token, and one more after each right guess: those in `chosen`, or else sampled from the outputs from
// `output` on.
void Scheduler::choose(const Piece& piece, int64_t output, std::span<const int32_t> chosen) {
  Stream& stream = streams_[piece.stream];
  const std::shared_ptr<Sequence> running = stream.sequence; // keeps it alive if it ends here
  Sequence& sequence = *running;
  if (sequence.request_.limit == 0) return end(stream, StopReason::limit);
  const auto guesses = std::span(piece.tokens).last(piece.guesses);
  int64_t right = 0;
  try {
    for (bool more = true; more;) {
      std::optional<core::TokenChoice> choice;
      const int32_t token = chosen.empty() ? sample(sequence, output + right, choice) : chosen[right];
      if (token < 0) core::throw_unusable_logits();
      if (!chosen.empty()) sequence.sampler_->accept_drawn(token);
      sequence.generation_.tokens += !piece.reading;
      more = right < piece.guesses && token == guesses[right];
      if (more) ++sequence.guesses_.right[right++];
      append_token(stream, token, choice);
      more = more && stream.sequence;
    }
  } catch (...) {
    end(stream, StopReason::interrupted, std::current_exception());
  }
  if (piece.guesses > 0) commit_guesses(piece, sequence, right, !stream.sequence);
}

int32_t Scheduler::sample(Sequence& sequence, int64_t output, std::optional<core::TokenChoice>& choice) {
  const std::span<const float> logits = executor_.logits(output);
  const int32_t token = sequence.sampler_->sample(logits, sequence.request_.constraint.get());
  if (sequence.request_.choices_after_samplers)
    choice = core::describe_choice(sequence.sampler_->candidates(), token);
  else if (sequence.request_.keep_choices)
    choice = core::describe_choice(logits, token);
  sequence.sampler_->accept(token);
  return token;
}

void Scheduler::append_token(Stream& stream, int32_t token, std::optional<core::TokenChoice> choice) {
  Sequence& sequence = *stream.sequence;
  sequence.tokens_.push_back(token);
  if (!sequence.marked_.empty()) sequence.marked_.push_back(token);
  ++sequence.generated_;
  if (sequence.request_.is_end && sequence.request_.is_end(token)) {
    sequence.end_choice_ = std::move(choice);
    return end(stream, StopReason::end_of_turn);
  }
  if (sequence.request_.constraint) sequence.request_.constraint->accept(token);
  if (!sequence.request_.on_token)
    sequence.deliver({token, std::move(choice)});
  else if (!sequence.request_.on_token({token, std::move(choice)}))
    return end(stream, StopReason::stopped);
  if (sequence.generated_ == sequence.request_.limit) end(stream, StopReason::limit);
}

void Scheduler::end(Stream& stream, StopReason stop, std::exception_ptr error) {
  decoding_ = has_pending_token_ = false;
  {
    const std::scoped_lock lock(mutex_);
    positions_[number_of(stream)] = -1;
  }
  stream.answered = !error;
  finish(std::exchange(stream.sequence, nullptr), stop, std::move(error));
}

void Scheduler::finish(const std::shared_ptr<Sequence>& sequence, StopReason stop, std::exception_ptr error) {
  sequence->evaluated_rows_.reset();
  {
    const std::scoped_lock lock(mutex_);
    ++counts_.ended;
    counts_.generated_tokens += sequence->generated_;
    counts_.guesses_made += sequence->guesses_.all_made();
    counts_.guesses_right += sequence->guesses_.all_right();
    changed_.notify_all();
  }
  sequence->end(stop, std::move(error));
}

void Scheduler::end_all(const std::exception_ptr& error) {
  for (Stream& stream : streams_)
    if (stream.sequence) {
      stream.cache.keep(0); // its contents are uncertain
      end(stream, StopReason::interrupted, error);
    }
}

// Counts weights once, and each stream's cache.
double Scheduler::bytes_of(std::span<const Piece> pieces) const {
  int64_t tokens = 0, past = 0, outputs = 0;
  for (const Piece& piece : pieces) {
    tokens += std::ssize(piece.tokens);
    past += streams_[piece.stream].cache.size();
    outputs += piece.outputs();
  }
  const int64_t streams = std::ssize(pieces);
  return bytes_of(tokens / streams, past / streams, streams, outputs);
}

double Scheduler::bytes_of(int64_t tokens, int64_t past, int64_t streams, int64_t outputs) const {
  const core::ExecutorConfig& config = executor_.config();
  return core::program_cost(program_, {tokens, past, streams, outputs, core::bytes_per_element(config.k_type),
                                       core::bytes_per_element(config.v_type)})
      .bytes();
}

} // namespace ridge::engine
