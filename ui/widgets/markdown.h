// Text as models write it: paragraphs, lists, headings, bold, `code` and fenced code blocks, wrapped to the width.
// Everything else of Markdown is shown as it is written.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace ridge::ui {

// How high each line of a text was drawn, so that those out of sight cost nothing. Starts empty; for one text, which
// may grow, and one width.
struct MarkdownHeights {
  struct Line {
    size_t bytes;
    float pixels;
  };
  std::vector<Line> lines;
};

inline constexpr size_t kNothingHovered = static_cast<size_t>(-1);

// Draws at the cursor, `width` wide (pixels). Code blocks have a button that copies them. Returns which byte of the
// text lies under the mouse, or kNothingHovered.
size_t markdown(std::string_view text, float width, MarkdownHeights& heights);

} // namespace ridge::ui
