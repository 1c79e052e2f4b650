#include "engine/diffusion/canvas_text.h"

#include "core/strings/utf8.h"

#include <algorithm>

namespace ridge::engine {

std::string canvas_text(const text::Tokenizer& tokenizer, int32_t mask, std::span<const int32_t> answer) {
  constexpr const char* kUndecided = "\u2591";
  std::string text;
  auto end = answer.end();
  while (end != answer.begin() && end[-1] == mask) --end;
  for (auto at = answer.begin(); at < end;) {
    const auto decided = std::find_if(at, end, [&](int32_t token) { return token != mask; });
    for (; at < decided; ++at) text += kUndecided;
    const auto undecided = std::find(decided, end, mask);
    text += tokenizer.decode(std::span(decided, undecided));
    at = undecided;
  }
  if (end != answer.end()) text += kUndecided;
  std::string shown;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view character = rest.substr(0, core::utf8_step(rest));
    rest.remove_prefix(character.size());
    if (!core::is_utf8(character)) continue;
    const char32_t code = core::utf8_code_point(character);
    if (code == '\n' || (code >= 0x20 && (code < 0x7f || code >= 0xa0))) shown += character;
  }
  return shown;
}

} // namespace ridge::engine
