// For diffusion models, a step evaluates one whole text and decides some positions. A token is delivered once all
// before it are decided.
#include "core/error.h"
#include "engine/sequences/scheduler.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace ridge::engine {

void Scheduler::check_filled(const SequenceRequest& request) const {
  if (!is_diffusion_) return;
  if (!request.diffusion) throw std::logic_error("Scheduler: a text to fill in without a mask token");
  if (request.diffusion->mask >= program_.vocab)
    throw_error("the file's mask token {} is outside the vocabulary (0 to {}): the file is damaged",
                request.diffusion->mask, program_.vocab - 1);
  if (request.constraint)
    throw_error("a diffusion model decides tokens in any order: its answers cannot be constrained by a grammar, "
                "schema, tool or reasoning budget");
  if (request.keep_prompt_choices) throw_error("a diffusion model has no probabilities for a prompt");
}

void Scheduler::begin_canvas(Sequence& sequence) const {
  const int64_t prompt = std::ssize(sequence.request_.prompt), limit = sequence.request_.limit;
  const int64_t room = executor_.config().context - prompt;
  const int64_t places = std::min(limit < 0 ? kUsualPlaces : limit, room);
  if (places < 1) return;
  sequence.canvas_.emplace(sequence.request_.prompt, places, *sequence.request_.diffusion,
                           static_cast<uint64_t>(sequence.sampler_->seed()));
  sequence.prompt_.tokens = sequence.read_ = prompt;
}

void Scheduler::diffusion_step() {
  Stream* next = nullptr;
  for (Stream& stream : streams_)
    if (stream.sequence && (!next || stream.last_used < next->last_used)) next = &stream;
  if (!next) return;
  const std::shared_ptr<Sequence> running = next->sequence; // keeps it alive if it ends here
  try {
    if (running->request_.limit == 0) return end(*next, StopReason::limit);
    if (!running->canvas_) begin_canvas(*running);
    if (!running->canvas_) return end(*next, StopReason::context_full);
    fill(*next);
  } catch (...) {
    if (next->sequence) end(*next, StopReason::interrupted, std::current_exception());
  }
}

void Scheduler::fill(Stream& stream) {
  Sequence& sequence = *stream.sequence;
  Canvas& canvas = *sequence.canvas_;
  const int64_t count = std::ssize(canvas.tokens());
  std::vector<int32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<int32_t> streams(count, number_of(stream)), outputs = canvas.outputs();
  const double start = turns_.now(), bytes = bytes_of(count, 0, 1, std::ssize(outputs));
  executor_.forward({.tokens = canvas.tokens(), .positions = positions, .streams = streams, .outputs = outputs});
  stream.last_used = ++step_;
  canvas.decide(guess(sequence));
  const double seconds = turns_.now() - start;
  sequence.generation_ += {0, seconds, bytes};
  count_step(seconds, bytes);
  if (sequence.request_.on_canvas) sequence.request_.on_canvas(canvas.answer());
  while (stream.sequence && sequence.generated_ < canvas.first_open()) {
    const int64_t place = sequence.generated_;
    const int32_t token = canvas.answer()[place];
    sequence.sampler_->accept(token);
    ++sequence.generation_.tokens;
    append_token(stream, token, std::move(canvas.choice(place)));
  }
  if (!stream.sequence || !canvas.done()) return;
  end(stream, sequence.request_.limit < 0 ? StopReason::limit : StopReason::context_full);
}

std::vector<Canvas::Guess> Scheduler::guess(Sequence& sequence) {
  Canvas& canvas = *sequence.canvas_;
  std::vector<Canvas::Guess> guesses;
  std::vector<float> logits;
  for (int64_t i = 0; i < std::ssize(canvas.open()); ++i) {
    const std::span<const float> row = executor_.logits(i);
    logits.assign(row.begin(), row.end());
    // the mask itself decides nothing
    logits[sequence.request_.diffusion->mask] = -std::numeric_limits<float>::infinity();
    const int32_t token = sequence.sampler_->sample(logits, nullptr);
    if (token < 0) core::throw_unusable_logits();
    Canvas::Guess guess = {token, sureness(logits, token, canvas.order(), canvas.chance())};
    if (sequence.request_.choices_after_samplers)
      guess.choice = core::describe_choice(sequence.sampler_->candidates(), token);
    else if (sequence.request_.keep_choices)
      guess.choice = core::describe_choice(logits, token);
    guesses.push_back(std::move(guess));
  }
  return guesses;
}

} // namespace ridge::engine
