// Characters of UTF-8 text.
#pragma once

#include <string>
#include <string_view>

namespace ridge::ui {

// The next character of UTF-8 text, which is taken off; U+FFFD for bytes that are none.
char32_t take_character(std::string_view& text);
void append_utf8(std::string& text, char32_t character);

} // namespace ridge::ui
