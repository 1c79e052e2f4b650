// Markdown blocks for layout, by md4c; formulas as Unicode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

inline constexpr uint8_t kBold = 1, kItalic = 2, kStruck = 4, kCode = 8, kLink = 16, kFormula = 32, kLatex = 64;

struct MarkdownRun {
  std::string text;
  uint8_t style = 0;
  bool display = false;  // on separate lines
  bool verbatim = false; // equals the source bytes from `source`
  size_t source = 0;
  std::string address;
};

using MarkdownRuns = std::vector<MarkdownRun>;

struct MarkdownBlock {
  enum class Kind : uint8_t { paragraph, heading, code, rule, table };
  enum class Align : uint8_t { left, center, right };
  // Enclosing quotes and list items, outermost first. `mark` precedes an item's first block.
  struct Margin {
    bool quote = false;
    std::string mark;
  };
  struct Line {
    size_t begin;
    size_t source;
  };

  Kind kind = Kind::paragraph;
  int level = 0;
  bool close = false; // no gap to the previous block (tight lists)
  std::vector<Margin> margins;
  MarkdownRuns runs;
  std::string code, language;
  std::vector<Line> lines;
  std::vector<std::vector<MarkdownRuns>> rows;
  std::vector<Align> aligns;
  size_t hash = 0; // equal for equal blocks
};

// Keeps invalid UTF-8.
std::vector<MarkdownBlock> parse_markdown(std::string_view source);

} // namespace ridge::text
