#include "engine/sequences/filling.h"

#include "core/error.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace ridge::engine {

void check_filled(const SequenceRequest& request, const core::Program& program) {
  if (!request.diffusion) throw std::logic_error("Scheduler: a text to fill in without a mask token");
  if (request.diffusion->mask >= program.vocab)
    throw_error("the file's mask token {} is outside the vocabulary (0 to {}): the file is damaged",
                request.diffusion->mask, program.vocab - 1);
  if (request.constraint)
    throw_error("a diffusion model decides tokens in any order: its answers cannot be constrained by a grammar, "
                "schema, tool or reasoning budget");
  if (request.keep_prompt_choices) throw_error("a diffusion model has no probabilities for a prompt");
}

bool begin_canvas(ScheduledSequence& sequence, int64_t context) {
  if (sequence.canvas_) return true;
  const int64_t prompt = sequence.prompt(), limit = sequence.request_.limit;
  const int64_t places = std::min(limit < 0 ? kUsualPlaces : limit, context - prompt);
  if (places < 1) return false;
  sequence.canvas_.emplace(sequence.request_.prompt, places, *sequence.request_.diffusion,
                           static_cast<uint64_t>(sequence.sampler_->seed()));
  sequence.prompt_.tokens = sequence.read_ = prompt;
  return true;
}

void fill_canvas(core::Executor& executor, const Stream& stream) {
  ScheduledSequence& sequence = *stream.sequence;
  Canvas& canvas = *sequence.canvas_;
  const int64_t count = std::ssize(canvas.tokens());
  std::vector<int32_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0);
  const std::vector<int32_t> streams(count, stream.number), outputs = canvas.outputs();
  executor.forward({.tokens = canvas.tokens(), .positions = positions, .streams = streams, .outputs = outputs});
  std::vector<Canvas::Guess> guesses;
  std::vector<float> logits;
  for (int64_t i = 0; i < std::ssize(canvas.open()); ++i) {
    const std::span<const float> row = executor.logits(i);
    logits.assign(row.begin(), row.end());
    // the mask itself decides nothing
    logits[sequence.request_.diffusion->mask] = -std::numeric_limits<float>::infinity();
    std::optional<core::TokenChoice> choice;
    const int32_t token = sequence.draw(logits, choice);
    guesses.push_back({token, sureness(logits, token, canvas.order(), canvas.chance()), std::move(choice)});
  }
  canvas.decide(std::move(guesses));
}

} // namespace ridge::engine
