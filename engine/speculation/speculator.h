// How many tokens to guess, and whether at all: by how often guesses of a kind were right so far, and by how long steps
// of so many tokens took.
#pragma once

#include "core/clock.h"
#include "engine/speculation/drafter.h"

#include <array>
#include <functional>
#include <memory>

namespace ridge::engine {

inline constexpr int64_t kMostGuesses = 15; // in one step: 16 tokens are what small batches' products are made for

// What became of the guesses of one answer.
struct GuessCounts {
  int64_t steps = 0;                                 // that had guesses
  std::array<int64_t, kMostGuesses> made{}, right{}; // by place within a step; right ones have only right ones before

  GuessCounts& operator+=(const GuessCounts& other);
  int64_t all_made() const;
  int64_t all_right() const;
};

class Speculator {
 public:
  // fixed_length: guesses in a step, whatever it costs; 0: as many as pay. Drafting is timed with `clock`.
  explicit Speculator(std::unique_ptr<Drafter> drafter, int64_t fixed_length = 0,
                      std::function<double()> clock = core::seconds_now)
      : drafter_(std::move(drafter)), fixed_length_(fixed_length), clock_(std::move(clock)) {}

  // An answer begins behind `tokens`.
  void begin(std::span<const int32_t> tokens);
  // What a drafter that reads hidden rows is told (drafter.h).
  bool reads_rows() const { return drafter_->reads_rows(); }
  void select(int32_t stream) { drafter_->select(stream); }
  int64_t resume(std::span<const int32_t> prompt) { return drafter_->resume(prompt); }
  void evaluated(std::span<const int32_t> tokens, std::span<const float> rows) { drafter_->evaluated(tokens, rows); }

  // Whether a step behind `tokens`, with `known` tokens to evaluate before any guess, is worth guesses; how many.
  int64_t worth(std::span<const int32_t> tokens, int64_t known, int64_t most);
  // As many guesses as the last worth() said, or fewer.
  std::vector<int32_t> draft();

  // A step of so many tokens took so long.
  void took(int64_t tokens, double seconds);
  // Says how many of the `made` guesses of the last draft() were right.
  void were_right(int64_t made, int64_t right);

  const GuessCounts& counts() const { return counts_; } // since begin()

 private:
  // Right and wrong guesses of a kind, by their place within a step; older ones count less.
  struct Record {
    std::array<double, kMostGuesses> right{}, wrong{};
    int64_t declined = 0, patience = 16; // opportunities let pass, and how many to let pass before it is tried again
    int64_t tries = 0;                   // that are left of those in a row
    // How likely a guess at this place is right, if those before it are: little is known of it at first, and `before`
    // is how likely that is at the place before.
    double likely(int64_t place, double before) const {
      return (right[place] + 2 * before) / (right[place] + wrong[place] + 2);
    }
  };
  double seconds_of(int64_t tokens) const;

  std::unique_ptr<Drafter> drafter_;
  const int64_t fixed_length_;
  const std::function<double()> clock_;
  std::array<Record, kDraftKinds> records_{};
  static constexpr int64_t kTimed = 2 * kMostGuesses + 2;
  std::array<double, kTimed> seconds_{}; // of a step, by tokens; 0: not known
  std::array<bool, kTimed> warm_{};      // it ran before: what is made once was made then
  bool guessed_ = false;                 // in the last step that was timed
  double draft_seconds_ = 0;             // for one guess
  int kind_ = -1;                        // of the guesses that worth() found
  int64_t length_ = 0;
  int64_t chances_ = 0; // to guess
  GuessCounts counts_;
};

} // namespace ridge::engine
