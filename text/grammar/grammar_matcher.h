// Constrains output to a grammar, token by token.
#pragma once

#include "core/sampler.h"
#include "text/grammar/grammar_masks.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ridge::text {

class GrammarMatcher : public core::TokenMask {
 public:
  explicit GrammarMatcher(std::shared_ptr<GrammarMasks> masks);
  // Shares nothing; both must outlive the matcher. Throws Error if the grammar refers to an unknown token.
  GrammarMatcher(const Grammar& grammar, const TokenTable& vocabulary);

  // End tokens are allowed if can_end().
  bool allows(int32_t token) override;
  // logits: [≥ vocab]. Masks everything beyond the vocabulary.
  void apply(std::span<float> logits) override;
  void accept(int32_t token);
  // A bit per token that apply() leaves as it is; valid until the next call.
  std::span<const uint64_t> mask();
  // For text with any tokenization.
  bool allows_text(std::string_view text);
  void accept_text(std::string_view text);
  // The beginning of all texts that may follow.
  std::string forced_text();
  bool can_end();
  void reset();

 private:
  using SetId = GrammarStates::SetId;

  [[nodiscard]] std::unique_lock<std::mutex> begin();
  SetId after(int32_t token);
  SetId after_text(std::string_view text);

  std::shared_ptr<GrammarMasks> masks_;
  SetId current_;
  SetId masked_ = GrammarStates::kDead; // whose mask mask_ is
  TokenBits mask_;
};

} // namespace ridge::text
