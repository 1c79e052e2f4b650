#include "engine/sequences/scheduler.h"

#include "core/clock.h"
#include "core/error.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace ridge::engine {
namespace {

using core::seconds_now;

constexpr int64_t kTokensBesideDecoding = 512; // of prompts in a step in which others generate: they wait so long
constexpr int64_t kWorthKeeping = 16; // tokens; for fewer, if most of it is new, a prompt takes the oldest stream

} // namespace

Scheduler::Scheduler(core::Executor& executor, const core::Program& program) : executor_(executor), program_(program) {
  const core::ExecutorConfig& config = executor.config();
  if (config.max_outputs < config.streams || config.max_batch < config.streams)
    throw std::logic_error("Scheduler: an executor with fewer outputs or rows than streams");
  for (int32_t i = 0; i < config.streams; ++i) streams_.push_back({StreamCache(executor, program, i), nullptr, 0});
  positions_.assign(streams_.size(), -1);
  thread_ = std::thread([this] { run(); });
}

Scheduler::~Scheduler() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::shared_ptr<Sequence> Scheduler::submit(SequenceRequest request) {
  check_prompt(request.prompt, executor_.config().context, program_.vocab);
  core::validate(request.sampling, program_.vocab);
  std::shared_ptr<Sequence> sequence(new Sequence(std::move(request)));
  const std::scoped_lock lock(mutex_);
  if (draining_ || stopping_) throw_error("the engine is shutting down and takes no further requests");
  sequence->number_ = submitted_++;
  waiting_.push_back(sequence);
  changed_.notify_all();
  return sequence;
}

void Scheduler::drain() {
  std::unique_lock lock(mutex_);
  draining_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return counts_.ended == static_cast<int64_t>(submitted_); });
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
  while (wait_for_work()) {
    try {
      end_cancelled();
      if (!decoding_) start_waiting();
      step();
    } catch (...) {
      end_all(std::current_exception());
    }
  }
}

// Returns false when the scheduler is to stop; everything has ended then.
bool Scheduler::wait_for_work() {
  const bool busy = std::ranges::any_of(streams_, [](const Stream& s) { return s.sequence != nullptr; });
  std::unique_lock lock(mutex_);
  for (size_t i = 0; i < streams_.size(); ++i) positions_[i] = streams_[i].sequence ? streams_[i].cache.size() : -1;
  if (!busy) changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
  if (!stopping_) return true;
  const std::vector<std::shared_ptr<Sequence>> waiting = std::exchange(waiting_, {});
  lock.unlock();
  for (const auto& sequence : waiting) sequence->end(StopReason::interrupted, nullptr);
  for (Stream& stream : streams_)
    if (stream.sequence) end(stream, StopReason::interrupted);
  return false;
}

void Scheduler::end_cancelled() {
  for (Stream& stream : streams_)
    if (stream.sequence && stream.sequence->cancelled()) end(stream, StopReason::interrupted);
  std::vector<std::shared_ptr<Sequence>> cancelled;
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(waiting_, [&](const std::shared_ptr<Sequence>& sequence) {
      if (sequence->cancelled()) cancelled.push_back(sequence);
      return sequence->cancelled();
    });
    counts_.ended += std::ssize(cancelled);
    changed_.notify_all();
  }
  for (const auto& sequence : cancelled) sequence->end(StopReason::interrupted, nullptr);
}

// Gives free streams to the sequences that wait: the most important first, then the oldest.
void Scheduler::start_waiting() {
  while (std::ranges::any_of(streams_, [](const Stream& s) { return !s.sequence; })) {
    std::shared_ptr<Sequence> sequence;
    {
      const std::scoped_lock lock(mutex_);
      const auto first = std::ranges::min_element(waiting_, {}, [](const std::shared_ptr<Sequence>& s) {
        return std::pair(-s->request_.priority, s->number_);
      });
      if (first == waiting_.end()) return;
      sequence = *first;
      waiting_.erase(first);
    }
    Stream& stream = best_stream(sequence->request_.prompt);
    stream.sequence = sequence;
    sequence->start(program_.vocab);
    sequence->cached_ = stream.cache.resume(sequence->request_.prompt);
    const std::scoped_lock lock(mutex_);
    counts_.prompt_tokens += std::ssize(sequence->request_.prompt);
    counts_.cached_tokens += sequence->cached_;
  }
}

// The free stream that holds most of the prompt, else the one that was not used for longest.
Scheduler::Stream& Scheduler::best_stream(std::span<const int32_t> prompt) {
  Stream* best = nullptr;
  std::pair<int64_t, int64_t> best_score;
  for (Stream& stream : streams_) {
    if (stream.sequence) continue;
    const int64_t common = stream.cache.common(prompt);
    const bool worth = common >= kWorthKeeping || 2 * common >= std::ssize(prompt);
    const std::pair score(worth ? common : 0, -static_cast<int64_t>(stream.last_used));
    if (!best || score > best_score) best = &stream, best_score = score;
  }
  return *best;
}

void Scheduler::step() {
  if (decoding_) {
    decode();
    return;
  }
  const std::vector<Piece> pieces = plan_step();
  if (!pieces.empty()) evaluate(pieces);
}

// What each running sequence has evaluated in the next step: the token it generated last, or a piece of its prompt.
std::vector<Scheduler::Piece> Scheduler::plan_step() {
  std::vector<Piece> pieces;
  std::vector<int32_t> reading; // streams whose prompts are not evaluated yet
  for (int32_t i = 0; i < std::ssize(streams_); ++i) {
    Stream& stream = streams_[i];
    if (!stream.sequence) continue;
    if (!stream.sequence->prompt_done(stream.cache.size()))
      reading.push_back(i);
    else if (stream.cache.size() >= executor_.config().context)
      end(stream, StopReason::context_full);
    else
      pieces.push_back({i, 1, true});
  }
  std::ranges::sort(reading, {}, [&](int32_t i) { return streams_[i].sequence->number_; });
  int64_t room = executor_.config().max_batch - std::ssize(pieces);
  if (!pieces.empty()) room = std::min(room, kTokensBesideDecoding);
  for (size_t i = 0; i < reading.size() && room > 0; ++i) { // an equal share of the room for each
    Stream& stream = streams_[reading[i]];
    const std::span<const int32_t> prompt = stream.sequence->request_.prompt;
    const int64_t share = std::max<int64_t>(1, room / (std::ssize(reading) - static_cast<int64_t>(i)));
    const int64_t count = stream.cache.next_piece(prompt, share);
    pieces.push_back({reading[i], count, stream.cache.size() + count == std::ssize(prompt)});
    room -= count;
  }
  return pieces;
}

void Scheduler::evaluate(std::span<const Piece> pieces) {
  std::vector<int32_t> tokens, positions, of_streams, outputs;
  for (const Piece& piece : pieces) {
    const Stream& stream = streams_[piece.stream];
    for (int64_t i = 0; i < piece.count; ++i) {
      const int64_t position = stream.cache.size() + i;
      tokens.push_back(stream.sequence->tokens_[position]);
      positions.push_back(static_cast<int32_t>(position));
      of_streams.push_back(piece.stream);
    }
    if (piece.wanted) outputs.push_back(static_cast<int32_t>(tokens.size()) - 1);
  }
  const double start = seconds_now(), bytes = bytes_of(pieces);
  executor_.forward({tokens, positions, of_streams, outputs});
  const double seconds = seconds_now() - start;
  ++step_;
  const int32_t* first = tokens.data();
  for (const Piece& piece : pieces) {
    Stream& stream = streams_[piece.stream];
    Sequence& sequence = *stream.sequence;
    Usage& usage = sequence.prompt_done(stream.cache.size()) ? sequence.generation_ : sequence.prompt_;
    usage += {piece.count, seconds, bytes * static_cast<double>(piece.count) / static_cast<double>(tokens.size())};
    stream.cache.evaluated({first, static_cast<size_t>(piece.count)});
    stream.last_used = step_;
    first += piece.count;
  }
  count_step(seconds, bytes);
  if (pieces.size() == 1 && pieces[0].wanted && start_decoding(streams_[pieces[0].stream])) return;
  int64_t output = 0;
  for (const Piece& piece : pieces)
    if (piece.wanted) choose(streams_[piece.stream], output++);
}

void Scheduler::count_step(double seconds, double bytes) {
  const std::scoped_lock lock(mutex_);
  ++counts_.steps;
  counts_.seconds += seconds;
  counts_.bytes += bytes;
}

bool Scheduler::somebody_waits() const {
  const std::scoped_lock lock(mutex_);
  return !waiting_.empty() || stopping_;
}

// A sequence alone has its tokens chosen by the executor, where that can, without the host between them.
bool Scheduler::start_decoding(const Stream& stream) {
  const SequenceRequest& request = stream.sequence->request_;
  if (request.limit == 0 || request.constraint || request.keep_choices || somebody_waits()) return false;
  const auto number = static_cast<int32_t>(&stream - streams_.data());
  decoding_ = executor_.start_decoding(*stream.sequence->sampler_, static_cast<int32_t>(stream.cache.size()), number);
  return decoding_;
}

// The next token of the only sequence. The one after it is evaluated meanwhile, unless it is the last one or others
// wait, who are then started.
void Scheduler::decode() {
  Stream& stream = *std::ranges::find_if(streams_, [](const Stream& s) { return s.sequence != nullptr; });
  Sequence& sequence = *stream.sequence;
  const bool ahead = sequence.generated_ + 1 != sequence.request_.limit &&
                     stream.cache.size() < executor_.config().context && !somebody_waits();
  const Piece piece = {static_cast<int32_t>(&stream - streams_.data()), 1, true};
  const double start = seconds_now(), bytes = bytes_of({&piece, 1});
  const int32_t token = executor_.next_token(ahead);
  decoding_ = ahead;
  if (token < 0) core::throw_unusable_logits();
  const double seconds = seconds_now() - start;
  stream.last_used = ++step_;
  if (ahead) stream.cache.evaluated({&token, 1});
  sequence.generation_ += {1, seconds, bytes};
  count_step(seconds, bytes);
  sequence.sampler_->accept_drawn(token);
  take(stream, token, std::nullopt);
}

// Chooses the next token of a stream's sequence from the logits of that output.
void Scheduler::choose(Stream& stream, int64_t output) {
  Sequence& sequence = *stream.sequence;
  if (sequence.request_.limit == 0) return end(stream, StopReason::limit);
  try {
    const std::span<const float> logits = executor_.logits(output);
    const int32_t token = sequence.sampler_->sample(logits, sequence.request_.constraint.get());
    std::optional<core::TokenChoice> choice;
    if (sequence.request_.keep_choices) choice = core::describe_choice(logits, token);
    sequence.sampler_->accept(token);
    take(stream, token, choice);
  } catch (...) {
    end(stream, StopReason::interrupted, std::current_exception());
  }
}

void Scheduler::take(Stream& stream, int32_t token, std::optional<core::TokenChoice> choice) {
  Sequence& sequence = *stream.sequence;
  sequence.tokens_.push_back(token);
  ++sequence.generated_;
  if (sequence.request_.is_end && sequence.request_.is_end(token)) return end(stream, StopReason::end_of_turn);
  if (sequence.request_.constraint) sequence.request_.constraint->accept(token);
  sequence.deliver({token, choice});
  if (sequence.generated_ == sequence.request_.limit) end(stream, StopReason::limit);
}

void Scheduler::end(Stream& stream, StopReason stop, std::exception_ptr error) {
  const std::shared_ptr<Sequence> sequence = std::exchange(stream.sequence, nullptr);
  decoding_ = false;
  {
    const std::scoped_lock lock(mutex_);
    positions_[&stream - streams_.data()] = -1;
    ++counts_.ended;
    counts_.generated_tokens += sequence->generated_;
    changed_.notify_all();
  }
  sequence->end(stop, std::move(error));
}

void Scheduler::end_all(const std::exception_ptr& error) {
  for (Stream& stream : streams_)
    if (stream.sequence) {
      stream.cache.keep(0); // what it holds is not certain
      end(stream, StopReason::interrupted, error);
    }
}

// What a step of these pieces moves: the weights once, each stream's cache for itself.
double Scheduler::bytes_of(std::span<const Piece> pieces) const {
  const core::ExecutorConfig& config = executor_.config();
  int64_t tokens = 0, past = 0, outputs = 0;
  for (const Piece& piece : pieces) {
    tokens += piece.count;
    past += streams_[piece.stream].cache.size();
    outputs += piece.wanted;
  }
  const int64_t streams = std::ssize(pieces);
  return core::program_cost(program_, {tokens / streams, past / streams, streams, outputs,
                                       core::bytes_per_element(config.k_type), core::bytes_per_element(config.v_type)})
      .bytes();
}

} // namespace ridge::engine
