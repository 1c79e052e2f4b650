#include "engine/sequences/constraint.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace ridge::engine {

std::vector<int32_t> forced_tokens(text::GrammarMatcher& matcher, const text::Tokenizer& tokenizer, int64_t most) {
  const std::string text = matcher.forced_text();
  if (text.empty() || most <= 0) return {};
  std::vector<int32_t> tokens = tokenizer.encode(text, {.continues = true});
  if (std::ssize(tokens) > most) tokens.resize(most);
  return tokens;
}

bool MinimumConstraint::allows(int32_t token) {
  return (left_ <= 0 || std::ranges::find(ends_, token) == ends_.end()) && (!within_ || within_->allows(token));
}

void MinimumConstraint::apply(std::span<float> logits) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  if (within_) within_->apply(logits);
  if (left_ <= 0) return;
  std::vector<float> of_ends;
  for (const int32_t end : ends_) of_ends.push_back(std::exchange(logits[end], kNever));
  if (std::ranges::any_of(logits, [](float logit) { return logit != kNever; })) return;
  for (size_t i = 0; i < ends_.size(); ++i) logits[ends_[i]] = of_ends[i];
}

void MinimumConstraint::accept(int32_t token) {
  --left_;
  if (within_) within_->accept(token);
}

} // namespace ridge::engine
