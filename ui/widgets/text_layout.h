// Styled text laid out in lines.
#pragma once

#include "text/markdown/document.h"

#include <imgui.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace ridge::ui {

inline constexpr size_t kNothingHovered = static_cast<size_t>(-1);

struct TextLayout {
  struct Piece { // a run's part on one line
    uint32_t run, begin, end;
    ImVec2 at; // from the top left
    float width;
  };
  std::vector<Piece> pieces;
  float width = 0, height = 0;
};

struct TextHover {
  size_t byte = kNothingHovered; // of the source
  const text::MarkdownRun* link = nullptr;
};

// `font`: for regular text. Cuts words longer than `width` (pixels).
TextLayout lay_out(const text::MarkdownRuns& runs, ImFont* font, float width);
void draw_text(const text::MarkdownRuns& runs, const TextLayout& layout, ImFont* font, ImVec2 at, TextHover& hover);

// Text in one style, with a smaller line height.
TextLayout lay_out_plain(std::string_view text, ImFont* font, float width);
void draw_plain(std::string_view text, const TextLayout& layout, ImFont* font, ImVec2 at, ImU32 color);

// The byte of the character at x, with `text` drawn from `left`.
size_t character_at(std::string_view text, ImFont* font, float left, float x);

} // namespace ridge::ui
