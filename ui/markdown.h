// Text as models write it: paragraphs, lists, headings, bold, `code` and fenced code blocks, wrapped to the width.
// Everything else of Markdown is shown as it is written.
#pragma once

#include <string_view>

namespace ridge::ui {

// Draws at the cursor, `width` wide (units of pixels). Code blocks have a button that copies them.
void markdown(std::string_view text, float width);

} // namespace ridge::ui
