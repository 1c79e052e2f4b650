#include "app/terminal/markdown/styled_text.h"

#include "app/terminal/markdown/word_wrap.h"
#include "core/strings/utf8.h"

#include <algorithm>

namespace ridge::app {
namespace {

constexpr const char* kReset = "\033[0m";

std::string orders_of(uint8_t style) {
  constexpr std::pair<Style, const char*> kOrders[] = {{Style::bold, "1"},   {Style::dim, "2"},
                                                       {Style::italic, "3"}, {Style::underlined, "4"},
                                                       {Style::struck, "9"}, {Style::code, "36"}};
  std::string numbers;
  for (const auto& [bit, number] : kOrders)
    if (style & static_cast<uint8_t>(bit)) numbers += (numbers.empty() ? "" : ";") + std::string(number);
  return numbers.empty() ? "" : "\033[" + numbers + "m";
}

} // namespace

std::string styled(std::string_view text, Style style) {
  if (text.empty()) return {};
  return orders_of(static_cast<uint8_t>(style)) + std::string(text) + kReset;
}

void StyledText::push(Style added) { stack_.push_back(style() | static_cast<uint8_t>(added)); }

void StyledText::pop() {
  if (!stack_.empty()) stack_.pop_back();
}

void StyledText::add(std::string_view text) {
  plain_ += text;
  styles_.resize(plain_.size(), style());
}

StyledText StyledText::empty_copy() const {
  StyledText next;
  next.stack_ = stack_;
  return next;
}

int StyledText::width() const {
  int widest = 0, columns = 0;
  for (std::string_view rest = plain_; !rest.empty();) {
    const char32_t code = core::take_character(rest);
    columns = code == '\n' ? 0 : columns + display_width(code);
    widest = std::max(widest, columns);
  }
  return widest;
}

// WordWrap only adds breaks and drops spaces there, so the styles can be matched again.
std::vector<std::string> StyledText::wrapped(int columns) const {
  WordWrap wrap;
  std::string text = wrap.add(plain_, columns);
  text += wrap.flush(columns);
  std::vector<std::string> lines(1);
  uint8_t now = 0;
  size_t at = 0;
  for (const char c : text) {
    if (c == '\n') {
      if (now != 0) lines.back() += kReset;
      now = 0;
      lines.emplace_back();
      if (at < plain_.size() && plain_[at] == '\n') ++at;
      continue;
    }
    while (at < plain_.size() && plain_[at] != c) ++at;
    const uint8_t wanted = at < styles_.size() ? styles_[at] : 0;
    if (wanted != now) {
      if (now != 0) lines.back() += kReset;
      lines.back() += orders_of(wanted);
      now = wanted;
    }
    lines.back() += c;
    ++at;
  }
  if (now != 0) lines.back() += kReset;
  return lines;
}

} // namespace ridge::app
