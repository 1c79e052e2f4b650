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

ReasoningBudget::ReasoningBudget(const text::Tokenizer& tokenizer, std::string_view prompt, int64_t tokens,
                                 std::string message, std::unique_ptr<Constraint> within)
    : tokenizer_(tokenizer), message_(std::move(message)), within_(std::move(within)), splitter_(prompt),
      decoder_(tokenizer, {.render_special = true, .continues = true}), left_(tokens) {
  end_if_used_up();
}

void ReasoningBudget::begin_with(std::string_view text) {
  forced_.clear();
  splitter_.begin_with(text);
  end_if_used_up();
}

bool ReasoningBudget::allows(int32_t token) {
  return forces() ? token == forced_[next_] : !within_ || within_->allows(token);
}

void ReasoningBudget::apply(std::span<float> logits) {
  if (!forces()) {
    if (within_) within_->apply(logits);
    return;
  }
  std::ranges::fill(logits, -std::numeric_limits<float>::infinity());
  logits[forced_[next_]] = 0;
}

void ReasoningBudget::accept(int32_t token) {
  if (within_) within_->accept(token);
  const bool reasoned = splitter_.in_reasoning();
  const std::string text = decoder_.push(token); // empty inside a character
  splitter_.push(text);
  if (forces()) {
    if (++next_ == forced_.size()) forced_.clear(), next_ = 0;
    return;
  }
  left_ -= reasoned && splitter_.in_reasoning();
  if (!text.empty()) end_if_used_up();
}

std::vector<int32_t> ReasoningBudget::forced(int64_t most) {
  if (!forces()) return within_ ? within_->forced(most) : std::vector<int32_t>();
  const auto first = forced_.begin() + static_cast<std::ptrdiff_t>(next_);
  return {first, first + std::min<std::ptrdiff_t>(most, forced_.end() - first)};
}

void ReasoningBudget::end_if_used_up() {
  if (left_ > 0 || !splitter_.in_reasoning()) return;
  const std::string close(splitter_.reasoning_end());
  forced_ = tokenizer_.encode(message_); // control tokens in it stay text
  const std::vector<int32_t> marker = tokenizer_.encode(close, {.parse_special = true});
  forced_.insert(forced_.end(), marker.begin(), marker.end());
  next_ = 0;
}

} // namespace ridge::engine
