#include "engine/chat/known_text.h"

#include <algorithm>

namespace ridge::engine {

KnownText::KnownText(const text::Tokenizer& tokenizer, const text::jinja::TaintedText& prompt, std::string_view answer,
                     std::span<const int32_t> tokens)
    : text_(prompt.bytes()), prompt_bytes_(prompt.size()), data_(prompt.data().begin(), prompt.data().end()),
      tokens_(tokens.begin(), tokens.end()) {
  text_ += answer;
  if (!tokens_.empty() && tokenizer.is_eog(tokens_.back())) tokens_.pop_back();
}

bool KnownText::begins(const text::jinja::TaintedText& prompt) const {
  if (text_.empty() || !prompt.bytes().starts_with(text_)) return false;
  const auto start = prompt.part(std::string_view(prompt.bytes()).substr(0, prompt_bytes_));
  return std::ranges::equal(start.data(), data_);
}

std::vector<int32_t> KnownText::continued(const text::Tokenizer& tokenizer,
                                          const text::jinja::TaintedText& prompt) const {
  const auto rest = prompt.part(std::string_view(prompt.bytes()).substr(text_.size()));
  const auto more = tokenizer.encode(rest.bytes(), {.parse_special = true, .data = rest.data()});
  std::vector<int32_t> tokens = tokens_;
  tokens.insert(tokens.end(), more.begin(), more.end());
  return tokens;
}

} // namespace ridge::engine
