#include "text/grammar/grammar_matcher.h"

#include "core/error.h"

#include <algorithm>
#include <limits>

namespace ridge::text {

namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

template <class T>
std::shared_ptr<const T> not_owned(const T& object) {
  return {std::shared_ptr<const T>(), &object};
}

} // namespace

GrammarMatcher::GrammarMatcher(std::shared_ptr<GrammarMasks> masks) : masks_(std::move(masks)) { reset(); }

GrammarMatcher::GrammarMatcher(const Grammar& grammar, const TokenTable& vocabulary)
    : GrammarMatcher(std::make_shared<GrammarMasks>(not_owned(grammar), not_owned(vocabulary))) {}

void GrammarMatcher::reset() {
  current_ = masked_ = GrammarStates::kDead;
  const auto lock = begin();
  current_ = masks_->states().start();
}

std::unique_lock<std::mutex> GrammarMatcher::begin() {
  std::unique_lock lock(masks_->mutex());
  masks_->states().begin();
  if (!masks_->states().is_full()) return lock;
  auto fresh = std::make_shared<GrammarMasks>(masks_->grammar(), masks_->vocabulary());
  current_ = fresh->states().adopt(masks_->states(), current_);
  masked_ = GrammarStates::kDead;
  lock = std::unique_lock(fresh->mutex());
  masks_ = std::move(fresh);
  return lock;
}

bool GrammarMatcher::can_end() {
  const auto lock = begin();
  return masks_->states().can_end(current_);
}

GrammarMatcher::SetId GrammarMatcher::after(int32_t token) {
  GrammarStates& states = masks_->states();
  const TokenTable& vocabulary = *masks_->vocabulary();
  if (token < 0 || token >= vocabulary.size()) return GrammarStates::kDead;
  if (vocabulary.is_eog(token)) return states.can_end(current_) ? states.ended() : GrammarStates::kDead;
  const std::string_view piece = vocabulary.piece(token);
  const SetId set = piece.empty() ? GrammarStates::kDead : after_text(piece);
  return states.unite(set, states.step_token(current_, token));
}

bool GrammarMatcher::allows(int32_t token) {
  const auto lock = begin();
  return after(token) != GrammarStates::kDead;
}

void GrammarMatcher::accept(int32_t token) {
  const auto lock = begin();
  const SetId next = after(token);
  if (next == GrammarStates::kDead) throw_error("the grammar does not allow token {} here", token);
  current_ = next;
}

GrammarMatcher::SetId GrammarMatcher::after_text(std::string_view text) {
  SetId set = current_;
  for (const char byte : text) set = masks_->states().step(set, static_cast<uint8_t>(byte));
  return set;
}

bool GrammarMatcher::allows_text(std::string_view text) {
  const auto lock = begin();
  return after_text(text) != GrammarStates::kDead;
}

void GrammarMatcher::accept_text(std::string_view text) {
  const auto lock = begin();
  const SetId next = after_text(text);
  if (next == GrammarStates::kDead) throw_error("the grammar does not allow '{}' here", text);
  current_ = next;
}

std::string GrammarMatcher::forced_text() {
  constexpr size_t kMax = 200; // bytes
  const auto lock = begin();
  std::string text;
  SetId set = current_;
  for (int byte = 0; text.size() < kMax && (byte = masks_->states().only_byte(set)) >= 0;) {
    text += static_cast<char>(byte);
    set = masks_->states().step(set, static_cast<uint8_t>(byte));
  }
  return text;
}

std::span<const uint64_t> GrammarMatcher::mask() {
  const auto lock = begin();
  if (masked_ != current_ || mask_.empty()) masks_->fill(current_, mask_);
  masked_ = current_;
  return mask_;
}

void GrammarMatcher::apply(std::span<float> logits) {
  const auto vocab = static_cast<size_t>(masks_->vocabulary()->size());
  if (logits.size() < vocab) throw_error("{} logits for a grammar with a vocabulary of {}", logits.size(), vocab);
  const std::span<const uint64_t> allowed = mask();
  for (size_t word = 0; word < allowed.size(); ++word) {
    const size_t first = word * 64, count = std::min<size_t>(64, vocab - first);
    if (allowed[word] == 0) {
      std::fill_n(logits.begin() + static_cast<std::ptrdiff_t>(first), count, kMasked);
    } else if (allowed[word] != ~uint64_t{0}) {
      for (size_t i = 0; i < count; ++i) {
        if ((allowed[word] >> i & 1) == 0) logits[first + i] = kMasked;
      }
    }
  }
  std::fill(logits.begin() + static_cast<std::ptrdiff_t>(vocab), logits.end(), kMasked);
}

} // namespace ridge::text
