// UTF-8 by table 3-7 of the Unicode standard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::core {

enum class Utf8Status : uint8_t {
  valid,
  incomplete, // more bytes may complete it
  invalid,
};

struct Utf8Head {
  Utf8Status status;
  uint8_t bytes; // of the character, else of the part that one U+FFFD replaces (at least 1)
};

// `text` is not empty.
Utf8Head utf8_head(std::string_view text);

size_t utf8_valid_prefix(std::string_view text);
inline bool is_utf8(std::string_view text) { return utf8_valid_prefix(text) == text.size(); }

// Returns the length of the first character, 1 if it is invalid. `text` is not empty.
inline size_t utf8_step(std::string_view text) {
  if (static_cast<unsigned char>(text.front()) < 0x80) return 1;
  const Utf8Head head = utf8_head(text);
  return head.status == Utf8Status::valid ? head.bytes : 1;
}

// `character` is well-formed.
char32_t utf8_code_point(std::string_view character);

// Removes and returns the first character, U+FFFD for an invalid part. `text` is not empty.
char32_t take_character(std::string_view& text);

void append_utf8(std::string& out, char32_t code_point); // below 0x110000

// For well-formed text.
inline bool is_utf8_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }
size_t utf8_length(std::string_view text); // in characters

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD"; // U+FFFD

} // namespace ridge::core
