// A text in Markdown as a list of blocks to be laid out: what md4c finds in it, and its formulas as Unicode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

inline constexpr uint8_t kBold = 1, kItalic = 2, kStruck = 4, kCode = 8, kLink = 16, // of a run, added up
    kFormula = 32,                                                                   // as Unicode
    kLatex = 64;                                                                     // as it was written

struct MarkdownRun {
  std::string text; // '\n': a new line
  uint8_t style = 0;
  bool display = false;  // a formula on lines of its own
  bool verbatim = false; // the bytes of the source from `source` on
  size_t source = 0;     // where it begins there
  std::string address;   // of a link
};

using MarkdownRuns = std::vector<MarkdownRun>;

struct MarkdownBlock {
  enum class Kind : uint8_t { paragraph, heading, code, rule, table };
  enum class Align : uint8_t { left, center, right };
  // What a block stands in, from the outside: a quote, or an item of a list with the mark that stands before its first
  // block.
  struct Margin {
    bool quote = false;
    std::string mark;
  };
  struct Line {    // of code
    size_t begin;  // in `code`
    size_t source; // where it begins there
  };

  Kind kind = Kind::paragraph;
  int level = 0;      // of a heading: 1 to 6
  bool close = false; // to the block before it, as in lists without empty lines
  std::vector<Margin> margins;
  MarkdownRuns runs;                           // of a paragraph or a heading
  std::string code, language;                  // of code
  std::vector<Line> lines;                     // likewise
  std::vector<std::vector<MarkdownRuns>> rows; // of a table, its head first
  std::vector<Align> aligns;                   // of its columns
  size_t hash = 0;                             // equal blocks have equal ones
};

// `source`: anything; what is no UTF-8 stays as it is.
std::vector<MarkdownBlock> parse_markdown(std::string_view source);

} // namespace ridge::text
