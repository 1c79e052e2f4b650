// The scheduler's side of a sequence, for its parts.
#pragma once

#include "engine/diffusion/canvas.h"
#include "engine/sequences/sequence.h"

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace ridge::engine {

class ScheduledSequence final : public Sequence {
 public:
  explicit ScheduledSequence(SequenceRequest request) : Sequence(std::move(request)), text_(std::ssize(tokens_)) {}

  void start(int64_t vocab, double now);
  // The sampler does not take the token yet. Fills in `choice` if the request keeps choices. Throws Error for unusable
  // logits.
  int32_t draw(std::span<const float> logits, std::optional<core::TokenChoice>& choice);
  // Appends and delivers a token; announce() wakes its reader. Returns why the sequence ends with it.
  std::optional<StopReason> append(int32_t token, std::optional<core::TokenChoice> choice);
  // `logits` of the token before `place`.
  void describe_prompt_token(int64_t place, std::span<const float> logits);
  using Sequence::announce, Sequence::end;

  std::span<const int32_t> text() const { return std::span(tokens_).first(text_); }
  // Tokens as caches distinguish them (marked_text()).
  std::span<const int32_t> marked() const { return marked_.empty() ? tokens_ : marked_; }
  std::span<const int32_t> marked_text() const { return marked().first(text_); }
  std::span<const int32_t> marked_prompt() const { return marked().first(prompt()); }
  int64_t prompt() const { return std::ssize(request_.prompt); }
  bool reuses() const { return request_.reuse && !request_.keep_prompt_choices; }
  const TextPictures* pictures() const { return request_.pictures.empty() ? nullptr : &request_.pictures; }
  bool text_done(int64_t cached) const { return cached >= text_; }

  using Sequence::cached_, Sequence::from_disk_, Sequence::generated_, Sequence::generation_, Sequence::guesses_,
      Sequence::number_, Sequence::preempted_, Sequence::prompt_, Sequence::read_, Sequence::request_,
      Sequence::resumed_, Sequence::sampler_, Sequence::stored_, Sequence::stream_, Sequence::tokens_;
  std::vector<core::AdapterUse> adapters_;
  std::vector<int32_t> marked_; // empty: same as tokens_
  std::optional<Canvas> canvas_;
  int64_t text_; // the prompt's length, or all tokens after rows were lost
  double waits_since_ = 0;
  int64_t evaluated_ = 0;        // tokens at the last preemption
  bool must_reevaluate_ = false; // its rows were lost
};

using SequencePointer = std::shared_ptr<ScheduledSequence>;

} // namespace ridge::engine
