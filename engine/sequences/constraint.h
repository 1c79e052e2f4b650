// Constraints on answers, and the vocabulary that grammars use.
#pragma once

#include "engine/sequences/sequence.h"
#include "text/chat/reasoning.h"
#include "text/grammar/grammar_matcher.h"
#include "text/tokenizer/tokenizer.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

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

// Tokens of the text that the grammar forces; as many as `most`.
std::vector<int32_t> forced_tokens(text::GrammarMatcher& matcher, const text::Tokenizer& tokenizer, int64_t most);

class GrammarConstraint final : public Constraint {
 public:
  // The tokenizer must outlive it.
  // Throws Error if the grammar names an unknown token.
  GrammarConstraint(const text::SharedGrammar& grammar, const std::shared_ptr<const text::TokenTable>& vocabulary,
                    const text::Tokenizer& tokenizer)
      : matcher_(grammar.masks(vocabulary)), tokenizer_(tokenizer) {}

  bool allows(int32_t token) override { return matcher_.allows(token); }
  void apply(std::span<float> logits) override { matcher_.apply(logits); }
  void accept(int32_t token) override { matcher_.accept(token); }
  std::vector<int32_t> forced(int64_t most) override { return forced_tokens(matcher_, tokenizer_, most); }
  void reset() { matcher_.reset(); }

 private:
  text::GrammarMatcher matcher_;
  const text::Tokenizer& tokenizer_;
};

// Delays the end of an answer, unless the grammar allows nothing else.
class MinimumConstraint final : public Constraint {
 public:
  MinimumConstraint(int64_t tokens, std::vector<int32_t> ends, std::unique_ptr<Constraint> within)
      : left_(tokens), ends_(std::move(ends)), within_(std::move(within)) {}

  bool allows(int32_t token) override;
  void apply(std::span<float> logits) override;
  void accept(int32_t token) override;
  std::vector<int32_t> forced(int64_t most) override {
    return within_ ? within_->forced(most) : std::vector<int32_t>();
  }

 private:
  int64_t left_;
  const std::vector<int32_t> ends_;
  const std::unique_ptr<Constraint> within_;
};

// Ends reasoning after a number of tokens by forcing a message and the end marker.
class ReasoningBudget final : public Constraint {
 public:
  // `prompt` may open the reasoning. `tokens` excludes the message. `within` may be null. The tokenizer must outlive
  // it.
  ReasoningBudget(const text::Tokenizer& tokenizer, std::string_view prompt, int64_t tokens, std::string message,
                  std::unique_ptr<Constraint> within);

  // Call before the first token if the answer continues `text`.
  void begin_with(std::string_view text);
  bool allows(int32_t token) override;
  void apply(std::span<float> logits) override;
  void accept(int32_t token) override;
  std::vector<int32_t> forced(int64_t most) override;

 private:
  void end_if_used_up();
  bool forces() const { return next_ < forced_.size(); }

  const text::Tokenizer& tokenizer_;
  const std::string message_;
  const std::unique_ptr<Constraint> within_;
  text::ReasoningSplitter splitter_;
  text::StreamDecoder decoder_;
  int64_t left_;
  std::vector<int32_t> forced_; // next_: number of tokens emitted
  size_t next_ = 0;
};

} // namespace ridge::engine
