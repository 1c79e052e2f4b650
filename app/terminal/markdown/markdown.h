// Markdown as a terminal can show it: emphasis, headings, lists, tables, code and links, parsed by md4c.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

// The lines of a document, in UTF-8 with the orders of colours and styles, none wider than `columns`, except those of
// code and words that are longer: these are left for the terminal to wrap, so that they can be copied as one line. Text
// is wrapped at words. `source` must have no control characters but \n and \t.
std::vector<std::string> markdown_lines(std::string_view source, int columns);

// Lines of ``` or ~~~ around code, which lines between them are.
class Fences {
 public:
  bool take(std::string_view line); // the next line; true: it opens or closes code
  bool in_code() const { return open_ > 0; }

 private:
  size_t open_ = 0; // marks of the line that opened it
};

// Columns that a line takes on a terminal: its orders take none.
int shown_width(std::string_view line);

// Where the last block of a document begins that may still change when more text comes. What stands before it does
// not.
size_t unfinished_block(std::string_view source);

} // namespace ridge::app
