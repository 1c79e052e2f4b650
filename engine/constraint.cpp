#include "engine/constraint.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace ridge::engine {

std::shared_ptr<const text::TokenTable> make_token_table(const text::Tokenizer& tokenizer) {
  std::vector<std::string> pieces(tokenizer.vocab_size());
  std::vector<int32_t> ends;
  std::vector<text::TokenTable::Special> special;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_eog(id)) ends.push_back(id);
    if (tokenizer.is_special(id)) {
      special.push_back({std::string(tokenizer.token_text(id)), id});
    } else {
      pieces[id] = tokenizer.piece(id);
    }
  }
  return std::make_shared<const text::TokenTable>(pieces, ends, special);
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
