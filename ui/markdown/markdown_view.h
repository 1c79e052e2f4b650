// Markdown as models write it: parsed and laid out when the text or the width changes, and then only drawn.
#pragma once

#include "ui/markdown/code_block.h"
#include "ui/markdown/text_layout.h"

#include <string>
#include <string_view>
#include <vector>

namespace ridge::ui {

class MarkdownView {
 public:
  struct Result {
    size_t hovered = kNothingHovered; // the byte of the text that lies under the mouse
    std::string clicked;              // the address of a link
  };
  // Draws at the cursor, `width` pixels wide. `growing`: with a mark where more will stand.
  Result draw(std::string_view text, float width, bool growing = false);

 private:
  struct Laid {
    size_t hash = 0;
    float height = 0;
    TextLayout text;
    CodeLayout code;
    std::vector<std::vector<TextLayout>> cells; // of a table
    std::vector<float> widths, heights;         // of its columns and rows
  };

  void update(std::string_view text, float width);
  void lay_out_block(const text::MarkdownBlock& block, Laid& laid) const;
  static void lay_out_table(const text::MarkdownBlock& block, float width, Laid& laid);
  void draw_block(const text::MarkdownBlock& block, const Laid& laid, ImVec2 at, TextHover& hover);
  static void draw_table(const text::MarkdownBlock& block, const Laid& laid, ImVec2 at, TextHover& hover);

  std::string source_;
  std::vector<text::MarkdownBlock> blocks_;
  std::vector<Laid> laid_; // of the blocks
  float width_ = 0, font_size_ = 0;
  ImVec2 end_ = {}; // of what was drawn last
};

} // namespace ridge::ui
