// A drafter that knows the answer.
#pragma once

#include "core/random.h"
#include "engine/speculation/drafter.h"

#include <algorithm>
#include <vector>

namespace ridge::tests {

class ScriptedDrafter final : public engine::Drafter {
 public:
  // `text`: prompt and answer. `right`: probability per guess; wrong guesses are tokens below `vocab`.
  ScriptedDrafter(std::vector<int32_t> text, double right, int32_t vocab, uint64_t seed)
      : text_(std::move(text)), right_(right), vocab_(vocab), seed_(seed) {}

  void begin(std::span<const int32_t>) override {}
  int prepare_draft(std::span<const int32_t> tokens) override {
    at_ = tokens.size();
    return at_ < text_.size() ? static_cast<int>(at_ % engine::kDraftKinds) : -1;
  }
  std::vector<int32_t> draft(int64_t most) override {
    std::vector<int32_t> guesses;
    for (size_t i = at_; std::ssize(guesses) < most && i < text_.size(); ++i) {
      const bool wrong = core::uniform(seed_, draws_++) >= right_;
      guesses.push_back(wrong ? (text_[i] + 1) % vocab_ : text_[i]);
    }
    return guesses;
  }

 private:
  const std::vector<int32_t> text_;
  const double right_;
  const int32_t vocab_;
  const uint64_t seed_;
  uint64_t draws_ = 0;
  size_t at_ = 0;
};

} // namespace ridge::tests
