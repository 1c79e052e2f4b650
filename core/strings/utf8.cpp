#include "core/strings/utf8.h"

#include <algorithm>
#include <cstring>

namespace ridge::core {

Utf8Head utf8_head(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {Utf8Status::valid, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Status::invalid, 1};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // Excludes overlong forms, surrogates and code points above U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Status::incomplete, static_cast<uint8_t>(i)};
    const bool fits = i == 1 ? byte(1) >= low && byte(1) <= high : is_utf8_continuation(text[i]);
    if (!fits) return {Utf8Status::invalid, static_cast<uint8_t>(i)};
  }
  return {Utf8Status::valid, static_cast<uint8_t>(length)};
}

size_t utf8_valid_prefix(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    uint64_t eight;
    if (text.size() - position >= sizeof eight) {
      std::memcpy(&eight, text.data() + position, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        position += sizeof eight;
        continue;
      }
    }
    const Utf8Head head = utf8_head(text.substr(position));
    if (head.status != Utf8Status::valid) break;
    position += head.bytes;
  }
  return position;
}

char32_t utf8_code_point(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(character[i])); };
  switch (character.size()) {
  case 1: return byte(0);
  case 2: return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
  case 3: return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  default: return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
}

char32_t take_character(std::string_view& text) {
  const Utf8Head head = utf8_head(text);
  const std::string_view character = text.substr(0, head.bytes);
  text.remove_prefix(head.bytes);
  return utf8_code_point(head.status == Utf8Status::valid ? character : kReplacementCharacter);
}

size_t utf8_length(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char byte) { return !is_utf8_continuation(byte); }));
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

} // namespace ridge::core
