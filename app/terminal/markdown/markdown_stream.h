// Streams Markdown; redraws an unfinished block in place.
#pragma once

#include "app/terminal/markdown/word_wrap.h"

#include <string>
#include <string_view>
#include <vector>

namespace ridge::app {

class MarkdownStream {
 public:
  // Takes whole UTF-8 characters without control characters except \n and \t, and returns the output. Lines that
  // scrolled away are not redrawn. Text stays unrendered if columns is 0 (unknown) or a block is very long.
  std::string add(std::string_view text, int columns, int rows);
  // The remaining output. The cursor is then after the last line.
  std::string flush(int columns);
  bool at_line_start() const { return plain_ ? wrap_.at_line_start() : shown_.empty() || shown_.back().empty(); }

 private:
  std::vector<std::string> lines(std::string_view source, int columns) const;
  std::string show(std::vector<std::string> lines, int columns, int rows);

  std::string source_;             // of the unfinished block
  std::vector<std::string> shown_; // on the screen; the cursor is after the last one
  bool follows_ = false;           // the block needs an empty line before it
  bool plain_ = false;
  WordWrap wrap_; // of plain text
};

} // namespace ridge::app
