// Decides how many tokens to draft, from acceptance rates per kind and measured step times.
#pragma once

#include "core/clock.h"
#include "engine/speculation/drafter.h"

#include <array>
#include <functional>
#include <memory>

namespace ridge::engine {

inline constexpr int64_t kMaxGuesses = 15; // per step: small-batch kernels take 16 tokens

struct GuessCounts {
  int64_t steps = 0;
  std::array<int64_t, kMaxGuesses> made{}, right{}; // by place in the draft; the first wrong one ends acceptance

  GuessCounts& operator+=(const GuessCounts& other);
  int64_t all_made() const;
  int64_t all_right() const;
};

class Speculator {
 public:
  // `fixed_length`: 0: as many as pay. `clock` times drafting.
  explicit Speculator(std::unique_ptr<Drafter> drafter, int64_t fixed_length = 0,
                      std::function<double()> clock = core::seconds_now)
      : drafter_(std::move(drafter)), fixed_length_(fixed_length), clock_(std::move(clock)) {
    records_[kForced].right.fill(8); // they are right almost always
  }

  void begin(std::span<const int32_t> tokens);
  // See drafter.h.
  bool reads_rows() const { return drafter_->reads_rows(); }
  bool select(int32_t stream, const TextPictures* pictures) { return drafter_->select(stream, pictures); }
  int64_t resume(std::span<const int32_t> prompt) { return drafter_->resume(prompt); }
  void evaluated(std::span<const int32_t> tokens, std::span<const float> rows) { drafter_->evaluated(tokens, rows); }

  // How many draft tokens, at most `most`, pay in a step with `known` tokens.
  int64_t draft_length(std::span<const int32_t> tokens, int64_t known, int64_t most);
  std::vector<int32_t> draft();
  // The same for tokens that are known without the drafter.
  int64_t worth_forced(int64_t known, int64_t most);

  void record_step_time(int64_t tokens, double seconds);
  void record_acceptance(int64_t made, int64_t right);

  const GuessCounts& counts() const { return counts_; }

 private:
  struct Record {
    std::array<double, kMaxGuesses> right{}, wrong{};
    int64_t declined = 0, patience = 16; // skipped chances, and how many before a retry
    int64_t tries = 0;
    // Acceptance rate given that earlier places were accepted. `before` is the rate at the previous place, the prior.
    double likely(int64_t place, double before) const {
      return (right[place] + 2 * before) / (right[place] + wrong[place] + 2);
    }
  };
  static constexpr int kForced = kDraftKinds; // a further kind
  int64_t best_length(int64_t known, int64_t most, double draft_seconds);
  double seconds_of(int64_t tokens) const;
  // How often a draft takes draft_seconds_.
  double parts_of(int64_t guesses) const { return drafter_->most_at_once() > 0 ? 1 : static_cast<double>(guesses); }

  std::unique_ptr<Drafter> drafter_;
  const int64_t fixed_length_;
  const std::function<double()> clock_;
  std::array<Record, kDraftKinds + 1> records_{};
  static constexpr int64_t kTimed = 2 * kMaxGuesses + 2;
  std::array<double, kTimed> seconds_{}; // by tokens; 0: unknown
  std::array<bool, kTimed> warm_{};      // ran before: first runs include setup
  bool guessed_ = false;
  double draft_seconds_ = 0; // of each guess, or of all at once
  int kind_ = -1;
  int64_t length_ = 0;
  int64_t chances_ = 0;
  GuessCounts counts_;
};

} // namespace ridge::engine
