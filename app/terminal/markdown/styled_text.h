// A text in several styles, and its lines for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

enum class Style : uint8_t { plain = 0, bold = 1, italic = 2, struck = 4, underlined = 8, dim = 16, code = 32 };

std::string styled(std::string_view text, Style style); // with the orders before and behind it

class StyledText {
 public:
  void push(Style style); // for what is added from now on, besides the styles that hold already
  void pop();
  void add(std::string_view text);

  bool empty() const { return plain_.empty(); }
  const std::string& plain() const { return plain_; }
  int width() const; // of its widest line, unwrapped
  // Lines of so many columns at most, wrapped at words; each begins and ends without a style.
  std::vector<std::string> wrapped(int columns) const;
  StyledText begin_again() const; // without text, with the styles that hold

 private:
  uint8_t style() const { return stack_.empty() ? 0 : stack_.back(); }

  std::string plain_;
  std::vector<uint8_t> styles_; // of each byte
  std::vector<uint8_t> stack_;
};

} // namespace ridge::app
