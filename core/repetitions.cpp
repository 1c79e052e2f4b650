#include "core/repetitions.h"

#include <algorithm>
#include <cmath>

namespace ridge::core {

void Repetitions::reset() {
  history_.clear();
  tail_.clear();
  behind_breaker_ = 0;
}

// Looks for a breaker that ends after the first `from` bytes.
bool Repetitions::has_breaker(std::string_view text, size_t from) const {
  return std::ranges::any_of(params_.breakers, [&](const std::string& breaker) {
    if (breaker.empty()) return false;
    const size_t first = from + 1 > breaker.size() ? from + 1 - breaker.size() : 0;
    return text.find(breaker, first) != std::string_view::npos;
  });
}

void Repetitions::accept(int32_t token) {
  history_.push_back(token);
  ++behind_breaker_;
  if (!texts_ || params_.breakers.empty()) return;
  const size_t before = tail_.size();
  tail_ += texts_->piece(token);
  if (has_breaker(tail_, before)) behind_breaker_ = 0;
  size_t longest = 0;
  for (const std::string& breaker : params_.breakers) longest = std::max(longest, breaker.size());
  if (tail_.size() > longest) tail_.erase(0, tail_.size() - longest);
}

// Z function of the reversed text: how long the text's end equals the passage that ends k tokens earlier.
void Repetitions::match() {
  const size_t most = params_.last_n < 0 ? history_.size() : std::min<size_t>(params_.last_n, history_.size());
  reversed_.assign(history_.rbegin(), history_.rbegin() + static_cast<std::ptrdiff_t>(most));
  matched_.assign(most, 0);
  size_t left = 0, right = 0;
  for (size_t k = 1; k < most; ++k) {
    size_t length = k < right ? std::min<size_t>(right - k, matched_[k - left]) : 0;
    while (k + length < most && reversed_[length] == reversed_[k + length]) ++length;
    matched_[k] = static_cast<int32_t>(length);
    if (k + length > right) left = k, right = k + length;
  }
}

std::span<const Repetitions::Penalty> Repetitions::penalties() {
  penalties_.clear();
  if (!params_.is_on() || behind_breaker_ < params_.allowed_length) return penalties_;
  match();
  for (size_t k = 1; k < matched_.size(); ++k) {
    const int64_t length = std::min<int64_t>(matched_[k], behind_breaker_);
    if (length < params_.allowed_length || length == 0) continue;
    penalties_.push_back({reversed_[k - 1], static_cast<float>(length)});
  }
  const auto by_token = [](const Penalty& a, const Penalty& b) {
    return a.token != b.token ? a.token < b.token : a.value > b.value;
  };
  std::ranges::sort(penalties_, by_token);
  const auto same = std::ranges::unique(penalties_, {}, &Penalty::token); // the longest per token
  penalties_.erase(same.begin(), same.end());
  if (texts_) std::erase_if(penalties_, [&](const Penalty& one) { return has_breaker(texts_->piece(one.token), 0); });
  for (Penalty& one : penalties_) {
    const float grown = std::pow(params_.base, one.value - static_cast<float>(params_.allowed_length));
    one.value = std::min(params_.multiplier * grown, 1e30f);
  }
  return penalties_;
}

} // namespace ridge::core
