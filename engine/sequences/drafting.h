// Draft tokens of a sequence that generates alone.
#pragma once

#include "engine/sequences/step_plan.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace ridge::engine {

class Drafting {
 public:
  // The references must outlive it. The speculator may be null: nothing is drafted.
  Drafting(core::Executor& executor, const core::Program& program, std::unique_ptr<Speculator> speculator)
      : executor_(executor), program_(program), speculator_(std::move(speculator)) {}

  bool on() const { return speculator_ != nullptr; }

  // Call before a stream reads its sequence's text. A speculator that reads hidden rows follows it if it is `alone`,
  // unless missing rows would require evaluating much text again or it cannot read the text's pictures.
  void attach(Stream& stream, bool alone);
  void detach(int32_t stream) {
    if (followed_ == stream) followed_ = -1;
  }
  // Passes the hidden rows of the `count` tokens before position `end`, which begin at row `first` of the last step.
  void pass_hidden_rows(const Stream& stream, const ScheduledSequence& sequence, int64_t first, int64_t end,
                        int64_t count);

  // Number of draft tokens that pay in a step with `known` tokens, `coming` of which are not chosen yet.
  int64_t length(const Stream& stream, int64_t known, int64_t coming);
  // Extends the piece by draft tokens.
  void add_guesses(const Stream& stream, Piece& piece);
  // Call after a step with `right` correct guesses. A recurrent state can only return to its mark, so the correct
  // tokens are evaluated again with the next step.
  void commit(Stream& stream, const Piece& piece, const ScheduledSequence& sequence, int64_t right, bool ended);
  void record_step_time(int64_t tokens, double seconds) {
    if (speculator_) speculator_->record_step_time(tokens, seconds);
  }

 private:
  int64_t most(const ScheduledSequence& sequence, int64_t known, int64_t coming) const;
  int64_t length_up_to(const Stream& stream, int64_t known, int64_t most);
  std::vector<int32_t> forced(const ScheduledSequence& sequence, int64_t known, int64_t most);

  core::Executor& executor_;
  const core::Program& program_;
  const std::unique_ptr<Speculator> speculator_;
  std::optional<uint64_t> begun_for_; // number of the sequence
  int32_t followed_ = -1;             // stream whose hidden rows the speculator has; -1: none
};

} // namespace ridge::engine
