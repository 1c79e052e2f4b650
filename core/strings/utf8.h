// UTF-8: what starts here, how far it is well-formed, one character read or written.
// Well-formed is what the Unicode standard, table 3-7, allows: no overlong forms, no surrogates, nothing above
// U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::core {

enum class Utf8Status : uint8_t {
  valid,      // a whole character
  incomplete, // the text ends inside what may become a character
  invalid,    // no continuation can make this a character
};

struct Utf8Head {
  Utf8Status status;
  uint8_t bytes; // of the character; else of the longest part that one U+FFFD replaces (at least 1)
};

// Looks at the start of `text`, which is not empty.
Utf8Head utf8_head(std::string_view text);

// Length of the longest prefix that is well-formed.
size_t utf8_valid_prefix(std::string_view text);
inline bool is_utf8(std::string_view text) { return utf8_valid_prefix(text) == text.size(); }

// Bytes up to the next character: 1 for a byte that starts none. `text` is not empty.
inline size_t utf8_step(std::string_view text) {
  if (static_cast<unsigned char>(text.front()) < 0x80) return 1;
  const Utf8Head head = utf8_head(text);
  return head.status == Utf8Status::valid ? head.bytes : 1;
}

// The code point of a well-formed character.
char32_t utf8_code_point(std::string_view character);

// The character at the start of `text` (not empty), which is taken off; U+FFFD for each part that is none.
char32_t take_character(std::string_view& text);

void append_utf8(std::string& out, char32_t code_point); // below 0x110000

// Whether a byte is inside a character rather than at its start; of well-formed text.
inline bool is_utf8_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }
size_t utf8_length(std::string_view text); // in characters

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD"; // U+FFFD

} // namespace ridge::core
