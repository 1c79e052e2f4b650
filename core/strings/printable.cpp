#include "core/strings/printable.h"

#include "core/strings/utf8.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace ridge::core {
namespace {

bool is_harmless(char32_t c) {
  const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  const bool control = c < 0x20 || within(0x7f, 0x9f);
  const bool invisible = c == 0xad || c == 0x61c || c == 0xfeff || within(0x200b, 0x200f) || within(0x2028, 0x202e) ||
                         within(0x2060, 0x206f) || within(0xfff0, 0xfffb) || within(0xe0000, 0xe007f);
  return !control && !invisible && c != '\\';
}

} // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "…";
    const Utf8Head head = utf8_head(text);
    const std::string_view character = text.substr(0, head.bytes);
    if (head.status == Utf8Status::valid && is_harmless(utf8_code_point(character))) {
      out += character;
    } else if (text[0] == '\\') {
      out += "\\\\";
    } else {
      for (const char byte : character)
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint8_t>(byte));
    }
    text.remove_prefix(character.size());
  }
  return out;
}

} // namespace ridge::core
