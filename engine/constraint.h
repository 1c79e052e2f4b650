// What answers are held to beside the model's own will: a grammar, a least length. And the vocabulary as grammars see
// it.
#pragma once

#include "engine/sequences/sequence.h"
#include "text/grammar/grammar_matcher.h"
#include "text/tokenizer/tokenizer.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

// Takes some 100 ms for 128 k tokens; every constraint of a model shares one.
std::shared_ptr<const text::TokenTable> make_token_table(const text::Tokenizer& tokenizer);

// As samplers see it.
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
  // Throws Error where the GBNF text does not parse, or refers to a token that the vocabulary does not have.
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

// Keeps an answer from ending before it has so many tokens, unless a grammar leaves nothing but its end.
class MinimumConstraint final : public Constraint {
 public:
  // `ends`: the tokens that end an answer. `within`: what else holds; null: nothing.
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
