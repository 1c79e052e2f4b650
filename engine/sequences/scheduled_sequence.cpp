#include "engine/sequences/scheduled_sequence.h"

#include <utility>

namespace ridge::engine {

void ScheduledSequence::start(int64_t vocab, double now) {
  waiting_ += now - waits_since_;
  if (sampler_) return; // it resumes
  sampler_.emplace(request_.sampling, vocab, request_.texts);
  for (const int32_t token : tokens_)
    if (token >= 0) sampler_->accept(token); // otherwise a picture token
}

// Greedy sampling leaves one token; the next likeliest follow with probability 0.
static core::TokenChoice describe_greedy_choice(std::span<const float> logits, int32_t token) {
  core::TokenChoice choice;
  choice.token = token;
  choice.log_probability = 0;
  choice.top[0] = {token, 0};
  size_t next = 1;
  for (const auto& likely : core::describe_choice(logits, token).top)
    if (likely.token != token && next < choice.top.size()) choice.top[next++].token = likely.token;
  return choice;
}

int32_t ScheduledSequence::draw(std::span<const float> logits, std::optional<core::TokenChoice>& choice) {
  const int32_t token = sampler_->sample(logits, request_.constraint.get());
  if (token < 0) core::throw_unusable_logits();
  if (request_.choices_after_samplers && request_.sampling.temp == 0 && sampler_->candidates().size() == 1)
    choice = describe_greedy_choice(logits, token);
  else if (request_.choices_after_samplers)
    choice = core::describe_choice(sampler_->candidates(), token);
  else if (request_.keep_choices)
    choice = core::describe_choice(logits, token);
  return token;
}

std::optional<StopReason> ScheduledSequence::append(int32_t token, std::optional<core::TokenChoice> choice) {
  tokens_.push_back(token);
  if (!marked_.empty()) marked_.push_back(token);
  ++generated_;
  if (request_.is_end && request_.is_end(token)) {
    end_choice_ = std::move(choice);
    return StopReason::end_of_turn;
  }
  if (request_.constraint) request_.constraint->accept(token);
  if (!request_.on_token)
    deliver({token, std::move(choice)});
  else if (!request_.on_token({token, std::move(choice)}))
    return StopReason::stopped;
  return generated_ == request_.limit ? std::optional(StopReason::limit) : std::nullopt;
}

void ScheduledSequence::describe_prompt_token(int64_t place, std::span<const float> logits) {
  prompt_choices_.resize(prompt() - 1);
  prompt_choices_[place - 1] = core::describe_choice(logits, tokens_[place]);
}

} // namespace ridge::engine
