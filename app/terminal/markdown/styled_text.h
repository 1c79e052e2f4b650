// Text with styles, wrapped for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

enum class Style : uint8_t { plain = 0, bold = 1, italic = 2, struck = 4, underlined = 8, dim = 16, code = 32 };

std::string styled(std::string_view text, Style style); // with escape sequences

class StyledText {
 public:
  void push(Style style); // for later text, on top of current styles
  void pop();
  void add(std::string_view text);

  bool empty() const { return plain_.empty(); }
  const std::string& plain() const { return plain_; }
  int width() const; // of its widest line
  // Wrapped at words; each line begins and ends unstyled.
  std::vector<std::string> wrapped(int columns) const;
  StyledText empty_copy() const; // with the current styles

 private:
  uint8_t style() const { return stack_.empty() ? 0 : stack_.back(); }

  std::string plain_;
  std::vector<uint8_t> styles_; // per byte
  std::vector<uint8_t> stack_;
};

} // namespace ridge::app
