// The interface of the tokenizer models: ordinary text in, ids out. The caller has cut out special tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

class TextModel {
 public:
  virtual ~TextModel() = default;
  // Appends the ids of `text`. `starts_text`: nothing, or a special token, stands before it.
  virtual void encode(std::string_view text, bool starts_text, std::vector<int32_t>& ids) const = 0;
  // The bytes that a normal token stands for.
  virtual std::string piece(std::string_view token_text) const = 0;
};

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81"; // U+2581 is SentencePiece's space

// Replaces every `from` by `to`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

} // namespace ridge::text
