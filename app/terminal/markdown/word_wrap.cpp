#include "app/terminal/markdown/word_wrap.h"

#include "core/strings/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

namespace ridge::app {
namespace {

constexpr int kTabStop = 8;
constexpr char32_t kJoiner = 0x200d; // joins two emoji

int tab_width(int column) { return kTabStop - column % kTabStop; }

bool is_skin_tone(char32_t code) { return code >= 0x1f3fb && code <= 0x1f3ff; } // modifies the preceding emoji

// Punctuation that stays with the character before it.
bool never_begins_line(char32_t code) {
  return std::u32string_view(U"、。，．！？：；）］｝」』】〕〉》…ー").find(code) != std::u32string_view::npos;
}

bool is_fence(std::string_view line, bool in_code) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (line.empty() || (line[0] != '`' && line[0] != '~')) return false;
  const size_t marks = std::min(line.find_first_not_of(line[0]), line.size());
  const std::string_view rest = line.substr(marks);
  return marks >= 3 && (in_code ? rest.find_first_not_of(' ') : rest.find('`')) == std::string_view::npos;
}

} // namespace

int display_width(char32_t character) {
  return is_skin_tone(character) ? 0 : std::max(0, utf8proc_charwidth(static_cast<utf8proc_int32_t>(character)));
}

std::string wrapped(std::string_view text, int columns, int indent) {
  if (columns == 0) return std::string(text);
  WordWrap wrap;
  const int width = std::max(columns - indent, 1);
  std::string lines = wrap.add(text, width);
  lines += wrap.flush(width);
  std::string out;
  for (const char c : lines) {
    out += c;
    if (c == '\n') out.append(static_cast<size_t>(indent), ' ');
  }
  return out;
}

std::string WordWrap::add(std::string_view text, int columns) {
  if (columns > 0 && column_ > columns) column_ %= columns;
  while (!text.empty()) {
    std::string_view rest = text;
    const char32_t code = core::take_character(rest);
    take(text.substr(0, text.size() - rest.size()), code, columns);
    text = rest;
  }
  return std::exchange(out_, {});
}

std::string WordWrap::flush(int columns) {
  place_word(columns);
  return std::exchange(out_, {});
}

void WordWrap::take(std::string_view character, char32_t code, int columns) {
  if (code == '\n') return end_line(columns);
  line_ += character;
  if (in_code_ || columns == 0)
    return write_as_is(character, code == '\t' ? tab_width(column_) : display_width(code), columns);
  if (code == ' ' || code == '\t') {
    place_word(columns);
    long_word_ = false;
    spaces_ += code == '\t' ? tab_width(column_ + spaces_) : 1;
    return;
  }
  const int width = display_width(code);
  if (may_break_before(code, width)) {
    place_word(columns);
    long_word_ = false;
  }
  if (long_word_) return write_as_is(character, width, columns);
  word_ += character;
  if (last_ != kJoiner) word_columns_ += width;
  last_ = code;
  if (word_columns_ <= columns) return;
  place_word(columns);
  long_word_ = true;
}

// Lines of wide characters break between any two characters.
bool WordWrap::may_break_before(char32_t code, int width) const {
  if (word_.empty() || width == 0 || last_ == kJoiner || never_begins_line(code)) return false;
  return width == 2 || display_width(last_) == 2;
}

void WordWrap::end_line(int columns) {
  place_word(columns);
  out_ += '\n';
  if (is_fence(line_, in_code_)) in_code_ = !in_code_;
  line_.clear();
  spaces_ = column_ = 0;
  long_word_ = false;
}

void WordWrap::place_word(int columns) {
  if (word_.empty()) return;
  const bool indents = column_ == 0;
  if (columns > 0 && !indents && column_ + spaces_ + word_columns_ > columns) {
    out_ += '\n';
    column_ = spaces_ = 0;
  }
  if (columns > 0 && indents) spaces_ = std::min(spaces_, columns / 2);
  out_.append(static_cast<size_t>(spaces_), ' ');
  out_ += word_;
  column_ += spaces_ + word_columns_;
  if (columns > 0)
    while (column_ > columns) column_ -= columns;
  word_.clear();
  word_columns_ = spaces_ = 0;
  last_ = 0;
}

void WordWrap::write_as_is(std::string_view character, int width, int columns) {
  out_.append(static_cast<size_t>(std::exchange(spaces_, 0)), ' ');
  out_ += character;
  column_ = columns > 0 && column_ + width > columns ? width : column_ + width;
}

} // namespace ridge::app
