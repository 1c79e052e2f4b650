// Ends reasoning after a number of tokens by forcing a message and the end marker.
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
