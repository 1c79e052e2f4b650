#include "engine/speculation/speculator.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ridge::engine {
namespace {

constexpr double kForget = 0.97; // decay of records per draft
constexpr double kNewest = 0.2;
constexpr double kGrowth = 0.02;    // assumed cost per token of an untried step; low, so that it is tried
constexpr int64_t kTimeAgain = 128; // one step in so many runs without drafts, for timing
constexpr int64_t kMinPatience = 16, kMaxPatience = 1024;
constexpr int64_t kTries = 4; // consecutive tries while right: the first one alone is slower

} // namespace

GuessCounts& GuessCounts::operator+=(const GuessCounts& other) {
  steps += other.steps;
  for (int64_t i = 0; i < kMaxGuesses; ++i) made[i] += other.made[i], right[i] += other.right[i];
  return *this;
}

int64_t GuessCounts::all_made() const { return std::accumulate(made.begin(), made.end(), int64_t{0}); }
int64_t GuessCounts::all_right() const { return std::accumulate(right.begin(), right.end(), int64_t{0}); }

void Speculator::begin(std::span<const int32_t> tokens) {
  counts_ = {};
  drafter_->begin(tokens);
}

double Speculator::seconds_of(int64_t tokens) const {
  if (seconds_[tokens] > 0) return seconds_[tokens];
  int64_t below = tokens - 1, above = tokens + 1;
  while (below > 0 && seconds_[below] == 0) --below;
  while (above < kTimed && seconds_[above] == 0) ++above;
  if (below == 0) return above < kTimed ? seconds_[above] : 0;
  if (above == kTimed) return seconds_[below] * (1 + kGrowth * static_cast<double>(tokens - below));
  const double share = static_cast<double>(tokens - below) / static_cast<double>(above - below);
  return seconds_[below] + share * (seconds_[above] - seconds_[below]);
}

int64_t Speculator::draft_length(std::span<const int32_t> tokens, int64_t known, int64_t most) {
  length_ = 0;
  most = std::min(most, kMaxGuesses);
  if (const int64_t at_once = drafter_->most_at_once(); at_once > 0) most = std::min(most, at_once);
  kind_ = most > 0 ? drafter_->prepare_draft(tokens) : -1;
  return kind_ < 0 ? 0 : best_length(known, most, draft_seconds_);
}

int64_t Speculator::worth_forced(int64_t known, int64_t most) {
  length_ = 0;
  kind_ = kForced;
  return best_length(known, std::min(most, kMaxGuesses), 0);
}

int64_t Speculator::best_length(int64_t known, int64_t most, double draft_seconds) {
  if (fixed_length_ > 0) return length_ = std::min(most, fixed_length_);
  if (seconds_of(1) == 0 || ++chances_ % kTimeAgain == 0) return 0;
  Record& record = records_[kind_];
  // Maximizes tokens per second: a step gives its accepted drafts and one more token.
  double best = 1 / seconds_of(1), expected = 1, all_right = 1, likely = 0.5;
  for (int64_t guesses = 1; guesses <= most; ++guesses) {
    likely = record.likely(guesses - 1, likely);
    expected += all_right *= likely;
    const double seconds = seconds_of(std::min(known + guesses, kTimed - 1)) + parts_of(guesses) * draft_seconds;
    if (const double speed = expected / seconds; speed > best) best = speed, length_ = guesses;
  }
  if (length_ == 0 && ++record.declined >= record.patience) {
    record.declined = 0;
    record.patience = std::min(2 * record.patience, kMaxPatience);
    record.tries = kTries;
  }
  if (length_ == 0 && record.tries > 0) {
    --record.tries;
    length_ = 1;
  }
  return length_;
}

std::vector<int32_t> Speculator::draft() {
  const double start = clock_();
  std::vector<int32_t> guesses = drafter_->draft(length_);
  const double each = (clock_() - start) / parts_of(length_);
  draft_seconds_ = draft_seconds_ == 0 ? each : (1 - kNewest) * draft_seconds_ + kNewest * each;
  return guesses;
}

void Speculator::record_step_time(int64_t tokens, double seconds) {
  if (tokens >= kTimed) return;
  const bool guessed = tokens > 1;
  // After a step of the other kind the host is not one step ahead, so times are not comparable.
  const bool alike = std::exchange(guessed_, guessed) == guessed;
  if (!alike && seconds_[tokens] > 0) return;
  double& known = seconds_[tokens];
  if (warm_[tokens]) known = known == 0 ? seconds : (1 - kNewest) * known + kNewest * seconds;
  warm_[tokens] = true;
}

void Speculator::record_acceptance(int64_t made, int64_t right) {
  if (made == 0) return;
  Record& record = records_[kind_];
  for (int64_t i = 0; i <= std::min(right, made - 1); ++i) {
    record.right[i] = kForget * record.right[i] + (i < right ? 1 : 0);
    record.wrong[i] = kForget * record.wrong[i] + (i == right ? 1 : 0);
  }
  if (right == 0)
    record.tries = 0;
  else if (record.tries == 0) // all tries were right, or drafts pay
    record.patience = kMinPatience;
  ++counts_.steps;
  for (int64_t i = 0; i < made; ++i) {
    ++counts_.made[i];
    counts_.right[i] += i < right;
  }
}

} // namespace ridge::engine
