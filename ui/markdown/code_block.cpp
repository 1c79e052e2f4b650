#include "ui/markdown/code_block.h"

#include "ui/widgets/widgets.h"

#include <algorithm>
#include <cmath>

namespace ridge::ui {
namespace {

using text::CodeKind;

constexpr float kHeader = 30, kPad = 14, kCodeLineHeights = 1.3f; // units; relative to the font

float line_height() { return std::round(fonts().mono->FontSize * kCodeLineHeights); }

ImU32 color_of(CodeKind kind) {
  const Theme& t = theme();
  switch (kind) {
  case CodeKind::keyword: return t.keyword;
  case CodeKind::string: return t.string;
  case CodeKind::number: return t.number;
  case CodeKind::comment: return t.dim;
  default: return t.text;
  }
}

std::string_view line_of(const text::MarkdownBlock& block, size_t number) {
  const size_t begin = block.lines[number].begin;
  const std::string_view rest = std::string_view(block.code).substr(std::min(begin, block.code.size()));
  return rest.substr(0, rest.find('\n'));
}

// `begin`: offset in the code. Parts are sorted.
void draw_line(std::string_view line, size_t begin, const std::vector<text::CodePart>& parts, ImVec2 at) {
  ImFont* const font = fonts().mono;
  const size_t end = begin + line.size();
  const auto put = [&](size_t from, size_t to, CodeKind kind) {
    if (from >= to) return;
    const std::string_view piece = line.substr(from - begin, to - from);
    text_at(at, piece, color_of(kind), font);
    at.x += size_of(piece, font).x;
  };
  size_t drawn = begin;
  for (auto part = std::ranges::upper_bound(parts, begin, {}, &text::CodePart::end);
       part != parts.end() && part->begin < end; ++part) {
    put(drawn, std::max(part->begin, begin), CodeKind::plain);
    put(std::max(part->begin, begin), std::min(part->end, end), part->kind);
    drawn = std::min(part->end, end);
  }
  put(drawn, end, CodeKind::plain);
}

} // namespace

CodeLayout lay_out_code(const text::MarkdownBlock& block, float width) {
  CodeLayout layout;
  layout.parts = text::code_parts(block.code, block.language);
  for (size_t i = 0; i < block.lines.size(); ++i)
    layout.width = std::max(layout.width, size_of(line_of(block, i), fonts().mono).x);
  const bool scrolls = layout.width > width - 2 * px(kPad);
  const auto lines = static_cast<float>(std::max<size_t>(block.lines.size(), 1));
  layout.height = px(kHeader) + lines * line_height() + px(12) + (scrolls ? ImGui::GetStyle().ScrollbarSize : 0);
  return layout;
}

void draw_code(const text::MarkdownBlock& block, const CodeLayout& layout, float width, TextHover& hover) {
  ImGui::PushStyleColor(ImGuiCol_ChildBg, theme().raised);
  ImGui::BeginChild("code", {width, layout.height}, false, ImGuiWindowFlags_NoScrollWithMouse);
  ImGui::SetCursorPos({px(kPad), px(8)});
  dim_text(block.language.empty() ? "code" : block.language);
  const float button = size_of("copy", fonts().small).x + px(14);
  ImGui::SetCursorPos({width - button - px(8), px(5)});
  if (quiet_button("copy")) ImGui::SetClipboardText(block.code.c_str());
  ImGui::SetCursorPos({px(kPad), px(kHeader)});
  ImGui::BeginChild("lines", {width - 2 * px(kPad), 0}, false, ImGuiWindowFlags_HorizontalScrollbar);
  const ImVec2 at = ImGui::GetCursorScreenPos(), mouse = ImGui::GetIO().MousePos;
  const float line = line_height(), top = ImGui::GetWindowDrawList()->GetClipRectMin().y,
              bottom = ImGui::GetWindowDrawList()->GetClipRectMax().y;
  const bool hovered = ImGui::IsWindowHovered();
  for (size_t i = 0; i < block.lines.size(); ++i) {
    const float y = at.y + static_cast<float>(i) * line;
    if (y + line < top || y > bottom) continue;
    const std::string_view shown = line_of(block, i);
    draw_line(shown, block.lines[i].begin, layout.parts, {at.x, y + (line - fonts().mono->FontSize) / 2});
    if (hovered && mouse.y >= y && mouse.y < y + line && !shown.empty() && mouse.x >= at.x &&
        mouse.x < at.x + size_of(shown, fonts().mono).x)
      hover.byte = block.lines[i].source + character_at(shown, fonts().mono, at.x, mouse.x);
  }
  ImGui::Dummy({layout.width, static_cast<float>(block.lines.size()) * line});
  ImGui::EndChild();
  ImGui::EndChild();
  ImGui::PopStyleColor();
}

} // namespace ridge::ui
