#include "core/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace ridge::core {
namespace {

struct Sequence {
  size_t bytes; // 0: not well-formed
  uint32_t code_point;
};

// The UTF-8 sequence at the start of `text` (not empty): no overlong forms, no surrogates, nothing above U+10FFFF.
Sequence first_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {0, 0};
  uint32_t code_point = lead & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0, 0};
    code_point = code_point << 6 | (byte(i) & 0x3fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  if (code_point < kSmallest[bytes] || code_point > 0x10ffff || surrogate) return {0, 0};
  return {bytes, code_point};
}

bool is_harmless(uint32_t c) {
  const auto within = [c](uint32_t first, uint32_t last) { return c >= first && c <= last; };
  const bool control = c < 0x20 || within(0x7f, 0x9f);
  const bool invisible = c == 0xad || c == 0x61c || c == 0xfeff || within(0x200b, 0x200f) || within(0x2028, 0x202e) ||
                         within(0x2060, 0x206f) || within(0xfff0, 0xfffb) || within(0xe0000, 0xe007f);
  return !control && !invisible && c != '\\';
}

} // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = first_sequence(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "…";
    const Sequence sequence = first_sequence(text);
    const size_t bytes = std::max<size_t>(sequence.bytes, 1);
    if (sequence.bytes != 0 && is_harmless(sequence.code_point)) {
      out += text.substr(0, bytes);
    } else if (text[0] == '\\') {
      out += "\\\\";
    } else {
      for (size_t i = 0; i < bytes; ++i)
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint8_t>(text[i]));
    }
    text.remove_prefix(bytes);
  }
  return out;
}

} // namespace ridge::core
