// A grammar as a sequence's constraint, and the vocabulary as grammars see it.
#pragma once

#include "engine/sequences/sequence.h"
#include "text/grammar/grammar_matcher.h"
#include "text/tokenizer/tokenizer.h"

#include <memory>
#include <string>

namespace ridge::engine {

// Takes some 100 ms for 128 k tokens; every constraint of a model shares one.
std::shared_ptr<const text::TokenTable> make_token_table(const text::Tokenizer& tokenizer);

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

} // namespace ridge::engine
