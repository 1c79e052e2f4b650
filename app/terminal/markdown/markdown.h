// Renders Markdown for a terminal, parsed by md4c.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

// Lines with escape sequences, wrapped at words to `columns`. The terminal wraps code and longer words, so that they
// are copied as one line. `source` has no control characters except \n and \t.
std::vector<std::string> markdown_lines(std::string_view source, int columns);

// Tracks fenced code (``` or ~~~).
class Fences {
 public:
  bool take(std::string_view line); // returns true if the line opens or closes code
  bool in_code() const { return open_ > 0; }

 private:
  size_t open_ = 0; // length of the opening fence; 0: not in code
};

// Columns without escape sequences.
int shown_width(std::string_view line);

// Start of the last block. Later text can change only this block.
size_t unfinished_block(std::string_view source);

} // namespace ridge::app
