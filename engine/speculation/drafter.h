// Drafters guess how a sequence goes on. The model checks every guess: a bad one costs time, and never changes the
// text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::engine {

// Guesses of one drafter that are right about as often as each other are of one kind.
inline constexpr int kDraftKinds = 8;

class Drafter {
 public:
  virtual ~Drafter() = default;
  // An answer begins behind `tokens`.
  virtual void begin(std::span<const int32_t> tokens) = 0;
  // Whether there is a guess of what follows `tokens`, which are those of begin() or of the last look() and any that
  // came behind them: its kind, from 0 to kDraftKinds - 1, or -1 where there is none.
  virtual int look(std::span<const int32_t> tokens) = 0;
  // The guess that the last look() found: at most `most` tokens, at least one.
  virtual std::vector<int32_t> draft(int64_t most) = 0;

  // Drafters that read the model's hidden rows (Program::hidden) are given those of every token that it evaluates.
  virtual bool reads_rows() const { return false; }
  // What follows is about the text of this stream, of which it keeps what it knows.
  virtual void select(int32_t /*stream*/) {}
  // The model is about to evaluate `prompt`, of which it may know a part. Returns how many tokens of it, at most, may
  // be left out: of the next one a row is missing.
  virtual int64_t resume(std::span<const int32_t> prompt) { return std::ssize(prompt); }
  // The model has evaluated `tokens`, the last of them just now: the rows of those, one after another. Rows of tokens
  // that it had evaluated before come again where its state went back.
  virtual void evaluated(std::span<const int32_t> /*tokens*/, std::span<const float> /*rows*/) {}
};

} // namespace ridge::engine
