// Constraints on answers, and the vocabulary that grammars use.
#pragma once

#include "engine/sequences/sequence.h"
#include "text/grammar/grammar_matcher.h"
#include "text/tokenizer/tokenizer.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

// Takes some 100 ms for 128 k tokens, so a model's constraints share it.
std::shared_ptr<const text::TokenTable> make_token_table(const text::Tokenizer& tokenizer);

class VocabularyTexts final : public core::TokenTexts {
 public:
  explicit VocabularyTexts(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  std::string_view piece(int32_t token) const override {
    return tokenizer_.has(token) && !tokenizer_.is_special(token) ? tokenizer_.piece(token) : std::string_view();
  }
  bool ends(int32_t token) const override { return tokenizer_.is_eog(token); }
  int32_t end() const override { return tokenizer_.eot() >= 0 ? tokenizer_.eot() : tokenizer_.eos(); }

 private:
  const text::Tokenizer& tokenizer_;
};

class GrammarConstraint final : public Constraint {
 public:
  // Throws Error if the GBNF does not parse or names an unknown token.
  GrammarConstraint(const std::string& gbnf, std::shared_ptr<const text::TokenTable> vocabulary)
      : vocabulary_(std::move(vocabulary)), grammar_(text::Grammar::parse(gbnf)), matcher_(grammar_, *vocabulary_) {}

  bool allows(int32_t token) override { return matcher_.allows(token); }
  void apply(std::span<float> logits) override { matcher_.apply(logits); }
  void accept(int32_t token) override { matcher_.accept(token); }
  void reset() { matcher_.reset(); }

 private:
  const std::shared_ptr<const text::TokenTable> vocabulary_;
  const text::Grammar grammar_;
  text::GrammarMatcher matcher_;
};

// Delays the end of an answer, unless the grammar allows nothing else.
class MinimumConstraint final : public Constraint {
 public:
  MinimumConstraint(int64_t tokens, std::vector<int32_t> ends, std::unique_ptr<Constraint> within)
      : left_(tokens), ends_(std::move(ends)), within_(std::move(within)) {}

  bool allows(int32_t token) override;
  void apply(std::span<float> logits) override;
  void accept(int32_t token) override;

 private:
  int64_t left_;
  const std::vector<int32_t> ends_;
  const std::unique_ptr<Constraint> within_;
};

} // namespace ridge::engine
