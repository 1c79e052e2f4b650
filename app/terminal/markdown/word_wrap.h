// Wraps streamed text at words; a word is buffered until it is complete. The terminal wraps fenced code and words
// longer than a line, so that they are copied as one line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::app {

// 0 for combining characters, 2 for wide ones.
int display_width(char32_t character);

// Indents all lines but the first. columns 0: returns the text unchanged.
std::string wrapped(std::string_view text, int columns, int indent);

class WordWrap {
 public:
  // Takes whole UTF-8 characters without control characters except \n and \t, and returns the output. `columns` may
  // change between calls; 0: no wrapping.
  std::string add(std::string_view text, int columns);
  std::string flush(int columns);
  bool at_line_start() const { return column_ == 0 && word_.empty(); }

 private:
  void take(std::string_view character, char32_t code, int columns);
  void end_line(int columns);
  void place_word(int columns);
  void write_as_is(std::string_view character, int width, int columns);
  bool may_break_before(char32_t code, int width) const;

  std::string out_;
  std::string line_;       // current line, to detect fences
  std::string word_;       // buffered
  int word_columns_ = 0;   // columns of word_
  int spaces_ = 0;         // before the word
  int column_ = 0;         // of the next character
  char32_t last_ = 0;      // of the word
  bool long_word_ = false; // inside a word longer than a line
  bool in_code_ = false;
};

} // namespace ridge::app
