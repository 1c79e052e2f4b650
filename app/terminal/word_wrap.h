// Wraps streamed text at words, so that a terminal does not break words at its right edge.
//
// A word is buffered until it is complete, because only then is it known whether it fits the line. Two kinds of text
// are left for the terminal to wrap, so that it can still be selected and copied as one line: code between ``` fences,
// and words longer than a line, such as addresses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::app {

// Columns that a terminal uses for a character: 0 for combining ones, 2 for wide ones such as Chinese.
int display_width(char32_t character);

// A whole text, wrapped for `columns`: lines behind its first begin with `indent` spaces, which count. columns 0: as it
// is.
std::string wrapped(std::string_view text, int columns, int indent);

class WordWrap {
 public:
  // Takes more text, UTF-8 in whole characters without control characters except \n and \t. Returns what is to be
  // written now to a terminal of `columns`; the terminal may change its size between calls. columns 0: not known,
  // nothing wraps.
  std::string add(std::string_view text, int columns);
  // Returns the buffered word.
  std::string flush(int columns);
  // Nothing was written or buffered since the last line break.
  bool at_line_start() const { return column_ == 0 && word_.empty(); }

 private:
  void take(std::string_view character, char32_t code, int columns);
  void end_line(int columns);
  void place_word(int columns);
  void write_as_is(std::string_view character, int width, int columns);
  bool may_break_before(char32_t code, int width) const;

  std::string out_;
  std::string line_;       // of the text, so far; fences are found in it
  std::string word_;       // buffered
  int word_columns_ = 0;   // that it takes
  int spaces_ = 0;         // between what was written and the word
  int column_ = 0;         // where the next character goes; `columns` where a line is full
  char32_t last_ = 0;      // of the word
  bool long_word_ = false; // the rest of a word longer than a line: written as it comes
  bool in_code_ = false;
};

} // namespace ridge::app
