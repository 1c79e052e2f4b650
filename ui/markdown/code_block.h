// Draws a code block with language, copy button and highlighting.
#pragma once

#include "text/markdown/document.h"
#include "text/markdown/syntax.h"
#include "ui/widgets/text_layout.h"

namespace ridge::ui {

struct CodeLayout {
  std::vector<text::CodePart> parts;
  float width = 0, height = 0; // lines may be wider
};

CodeLayout lay_out_code(const text::MarkdownBlock& block, float width);
// At ImGui's cursor.
void draw_code(const text::MarkdownBlock& block, const CodeLayout& layout, float width, TextHover& hover);

} // namespace ridge::ui
