// Tokenizer models; the caller has removed special tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

class TextModel {
 public:
  virtual ~TextModel() = default;
  // `starts_text`: at the start or after a special token.
  virtual void encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) const = 0;
  // Bytes of a normal token.
  virtual std::string piece(std::string_view token_text) const = 0;
};

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81"; // U+2581, SentencePiece's space

std::string replaced(std::string_view text, std::string_view from, std::string_view to);

} // namespace ridge::text
