// The text of tokens that a model was given and generated, so that a conversation's next prompt continues those very
// tokens. Tokenizing the model's own answer again could give other tokens, and the cache would be lost from there on.
#pragma once

#include "text/jinja/tainted_text.h"
#include "text/tokenizer/tokenizer.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::engine {

class KnownText {
 public:
  KnownText() = default; // begins no prompt
  // `tokens`: of the prompt and of the answer; `answer`: what the model wrote, markers included. An end token at the
  // end is left out, since templates write the end of a turn themselves.
  KnownText(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt, std::string_view answer,
            std::span<const int32_t> tokens);

  // Whether the prompt begins with this text. Its start must also consist of the same data: a message that spells out
  // earlier turns, control tokens included, does not get those turns' tokens.
  bool begins(const text::jinja::TaintedText& prompt) const;
  // The tokens of a prompt that begins so.
  std::vector<int32_t> continued(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt) const;
  size_t size() const { return text_.size(); } // bytes

 private:
  std::string text_;
  size_t prompt_bytes_ = 0;          // of text_; the rest is the model's answer
  std::vector<text::ByteSpan> data_; // of those bytes
  std::vector<int32_t> tokens_;
};

} // namespace ridge::engine
