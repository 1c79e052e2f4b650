// Markdown on a terminal while it is being written: a block that is not whole yet is drawn again in its place.
#pragma once

#include "app/terminal/word_wrap.h"

#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

class MarkdownStream {
 public:
  // Takes more text, UTF-8 in whole characters without control characters except \n and \t. Returns what is to be
  // written now. Lines that have left the screen are not drawn again. columns 0: not known; the text is written as it
  // is, as very long texts are.
  std::string add(std::string_view text, int columns, int rows);
  // Returns what is missing; the cursor is then behind the last line.
  std::string flush(int columns);
  bool at_line_start() const { return plain_ ? wrap_.at_line_start() : shown_.empty() || shown_.back().empty(); }

 private:
  std::vector<std::string> lines(std::string_view source, int columns) const;
  std::string show(std::vector<std::string> lines, int columns, int rows);

  std::string source_;             // of the block that may still change
  std::vector<std::string> shown_; // its lines, as they are on the screen; the cursor is behind the last one
  bool follows_ = false;           // another block, from which an empty line parts it
  bool plain_ = false;
  WordWrap wrap_; // of plain text
};

} // namespace ridge::app
