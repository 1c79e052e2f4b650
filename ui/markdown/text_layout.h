// Runs of text in several styles, laid out in lines: measured once, then drawn as often as they are seen.
#pragma once

#include "text/markdown/document.h"

#include <imgui.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace ridge::ui {

inline constexpr size_t kNothingHovered = static_cast<size_t>(-1);

struct TextLayout {
  struct Piece { // of one run, on one line
    uint32_t run, begin, end;
    ImVec2 at; // from the top left corner
    float width;
  };
  std::vector<Piece> pieces;
  float width = 0, height = 0;
};

// What the mouse is over.
struct TextHover {
  size_t byte = kNothingHovered; // of the source
  const text::MarkdownRun* link = nullptr;
};

// `font`: of what is neither code nor bold. Lines are at most `width` pixels wide; longer words are cut.
TextLayout lay_out(const text::MarkdownRuns& runs, ImFont* font, float width);
void draw_text(const text::MarkdownRuns& runs, const TextLayout& layout, ImFont* font, ImVec2 at, TextHover& hover);

// A text in one style, in lines that are a little closer.
TextLayout lay_out_plain(std::string_view text, ImFont* font, float width);
void draw_plain(std::string_view text, const TextLayout& layout, ImFont* font, ImVec2 at, ImU32 color);

// The byte of `text`, drawn from `left` on, whose character lies at x.
size_t character_at(std::string_view text, ImFont* font, float left, float x);

} // namespace ridge::ui
