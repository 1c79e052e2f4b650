// Ends the reasoning of an answer when it has as many tokens as it may: a closing message and the marker that ends
// reasoning are then the only tokens that can come.
#pragma once

#include "engine/sequences/sequence.h"
#include "text/chat/reasoning.h"
#include "text/tokenizer/tokenizer.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

class ReasoningBudget final : public Constraint {
 public:
  // `prompt`: of a chat, which may open the reasoning. `tokens`: of all reasoning in the answer, without the message.
  // `within`: what else holds; null: nothing. The tokenizer must outlive it.
  ReasoningBudget(const text::Tokenizer& tokenizer, std::string_view prompt, int64_t tokens, std::string message,
                  std::unique_ptr<Constraint> within);

  // Before the first token: the answer goes on from `text`.
  void begin_with(std::string_view text);
  bool allows(int32_t token) override;
  void apply(std::span<float> logits) override;
  void accept(int32_t token) override;

 private:
  void end_if_used_up();
  bool forces() const { return next_ < forced_.size(); }

  const text::Tokenizer& tokenizer_;
  const std::string message_;
  const std::unique_ptr<Constraint> within_;
  text::ReasoningSplitter splitter_;
  text::StreamDecoder decoder_;
  int64_t left_;
  std::vector<int32_t> forced_; // the end of the reasoning, and how much of it is there
  size_t next_ = 0;
};

} // namespace ridge::engine
