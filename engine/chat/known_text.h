// Remembers the tokens of earlier text: tokenizing the answer again could give other tokens, and lose the cache from
// there on.
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
  KnownText() = default;
  // `answer` includes markers. Drops a final end token, since templates write the end of a turn.
  KnownText(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt, std::string_view answer,
            std::span<const int32_t> tokens);

  // Also compares which bytes are data: a message that spells out earlier turns does not get their tokens.
  bool begins(const text::jinja::TaintedText& prompt) const;
  std::vector<int32_t> continued(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt) const;
  size_t size() const { return text_.size(); }

 private:
  std::string text_;
  size_t prompt_bytes_ = 0;
  std::vector<text::ByteSpan> data_;
  std::vector<int32_t> tokens_;
};

} // namespace ridge::engine
