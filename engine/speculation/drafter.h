// Who guesses how a sequence goes on. Whatever a drafter guesses, the model checks it: a bad one costs time, never
// another text.
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
};

} // namespace ridge::engine
