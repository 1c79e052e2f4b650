// Draws Markdown; caches the layout for a text and width.
#pragma once

#include "ui/markdown/code_block.h"
#include "ui/widgets/text_layout.h"

#include <string>
#include <string_view>
#include <vector>

namespace ridge::ui {

class MarkdownView {
 public:
  struct Result {
    size_t hovered = kNothingHovered; // byte of the text under the mouse
    std::string clicked;              // address of a link
  };
  // Draws at the cursor, `width` pixels wide. `growing`: adds a mark at the end.
  Result draw(std::string_view text, float width, bool growing = false);

 private:
  struct Laid {
    size_t hash = 0;
    float height = 0;
    TextLayout text;
    CodeLayout code;
    std::vector<std::vector<TextLayout>> cells;
    std::vector<float> widths, heights;
  };

  void update(std::string_view text, float width);
  void lay_out_block(const text::MarkdownBlock& block, Laid& laid) const;
  static void lay_out_table(const text::MarkdownBlock& block, float width, Laid& laid);
  void draw_block(const text::MarkdownBlock& block, const Laid& laid, ImVec2 at, TextHover& hover);
  static void draw_table(const text::MarkdownBlock& block, const Laid& laid, ImVec2 at, TextHover& hover);

  std::string source_;
  std::vector<text::MarkdownBlock> blocks_;
  std::vector<Laid> laid_;
  float width_ = 0, font_size_ = 0;
  ImVec2 end_ = {}; // end of the last line drawn
};

} // namespace ridge::ui
