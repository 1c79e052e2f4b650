#include "ui/markdown/markdown_view.h"

#include "ui/widgets/widgets.h"

#include <algorithm>
#include <numeric>

namespace ridge::ui {
namespace {

using text::MarkdownBlock;
using Kind = MarkdownBlock::Kind;

constexpr float kQuoteMargin = 18, kItemMargin = 28; // units
constexpr float kCellPad = 10, kRowPad = 5, kNarrowestCell = 48;
constexpr size_t kDeepest = 8;

float margin_of(const MarkdownBlock::Margin& margin) { return px(margin.quote ? kQuoteMargin : kItemMargin); }
float indent_of(const MarkdownBlock& block) {
  float indent = 0;
  for (size_t i = 0; i < std::min(block.margins.size(), kDeepest); ++i) indent += margin_of(block.margins[i]);
  return indent;
}

ImFont* font_of(const MarkdownBlock& block) {
  if (block.kind != Kind::heading) return fonts().body;
  return block.level == 1 ? fonts().title : block.level == 2 ? fonts().heading : fonts().bold;
}

float gap_before(const MarkdownBlock& block, bool first) {
  if (first) return 0;
  if (block.kind == Kind::heading) return px(block.level <= 2 ? 18 : 14);
  return px(block.close ? 3 : 10);
}

void draw_margins(const MarkdownBlock& block, ImVec2 at, float height) {
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  float x = at.x;
  for (size_t i = 0; i < std::min(block.margins.size(), kDeepest); ++i) {
    const MarkdownBlock::Margin& margin = block.margins[i];
    const float right = x + margin_of(margin), line = fonts().body->FontSize * 1.45f;
    if (margin.quote) {
      draw->AddRectFilled({x + px(2), at.y}, {x + px(5), at.y + height}, theme().border, px(1));
    } else if (margin.mark == "•") {
      draw->AddCircleFilled({right - px(12), at.y + line / 2}, px(2.5f), theme().dim);
    } else if (margin.mark == "☐" || margin.mark == "☑") {
      const ImVec2 from = {right - px(22), at.y + line / 2 - px(7)}, to = {from.x + px(14), from.y + px(14)};
      draw->AddRect(from, to, theme().dim, px(3), 0, px(1.5f));
      if (margin.mark == "☑") {
        draw->AddLine({from.x + px(3), from.y + px(7)}, {from.x + px(6), from.y + px(10)}, theme().accent, px(2));
        draw->AddLine({from.x + px(6), from.y + px(10)}, {from.x + px(11), from.y + px(4)}, theme().accent, px(2));
      }
    } else if (!margin.mark.empty()) {
      text_at({right - px(7), at.y + (line - fonts().body->FontSize) / 2}, margin.mark, theme().dim, fonts().body, 1);
    }
    x = right;
  }
}

} // namespace

MarkdownView::Result MarkdownView::draw(std::string_view text, float width, bool growing) {
  update(text, width);
  const float top = ImGui::GetWindowDrawList()->GetClipRectMin().y,
              bottom = ImGui::GetWindowDrawList()->GetClipRectMax().y;
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const ImVec2 cursor = ImGui::GetCursorPos();
  TextHover hover;
  float y = 0;
  end_ = {corner.x, corner.y};
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const MarkdownBlock& block = blocks_[i];
    const Laid& laid = laid_[i];
    const float gap = gap_before(block, i == 0), begin = y + gap;
    const bool last = i + 1 == blocks_.size();
    if (corner.y + begin + laid.height >= top && corner.y + y <= bottom) {
      // A quote's bar continues between its blocks.
      const bool goes_on = i > 0 && !blocks_[i - 1].margins.empty() && !block.margins.empty() &&
                           blocks_[i - 1].margins[0].quote && block.margins[0].quote;
      if (goes_on)
        ImGui::GetWindowDrawList()->AddRectFilled({corner.x + px(2), corner.y + y},
                                                  {corner.x + px(5), corner.y + begin}, theme().border);
      draw_margins(block, {corner.x, corner.y + begin}, laid.height);
      const float indent = indent_of(block);
      ImGui::SetCursorPos({cursor.x + indent, cursor.y + begin});
      ImGui::PushID(static_cast<int>(i));
      draw_block(block, laid, {corner.x + indent, corner.y + begin}, hover);
      ImGui::PopID();
      if (last && growing)
        ImGui::GetWindowDrawList()->AddRectFilled({end_.x + px(3), end_.y + px(4)}, {end_.x + px(11), end_.y + px(20)},
                                                  theme().dim, px(1));
    }
    y = begin + laid.height;
  }
  ImGui::SetCursorPos(cursor);
  ImGui::Dummy({width, y});
  Result result;
  if (!ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows)) return result;
  if (!hover.link) {
    result.hovered = hover.byte;
    return result;
  }
  ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
  if (hover.link->address != hover.link->text) show_tooltip(hover.link->address);
  if (ImGui::IsMouseClicked(0)) result.clicked = hover.link->address;
  return result;
}

void MarkdownView::update(std::string_view text, float width) {
  const float font_size = fonts().body->FontSize;
  if (width != width_ || font_size != font_size_) {
    laid_.clear();
    width_ = width;
    font_size_ = font_size;
  }
  if (text != source_) {
    source_ = text;
    blocks_ = text::parse_markdown(source_);
  } else if (laid_.size() == blocks_.size()) {
    return;
  }
  laid_.resize(blocks_.size());
  for (size_t i = 0; i < blocks_.size(); ++i)
    if (laid_[i].hash != blocks_[i].hash || laid_[i].height == 0) lay_out_block(blocks_[i], laid_[i]);
}

void MarkdownView::lay_out_block(const MarkdownBlock& block, Laid& laid) const {
  laid = {};
  laid.hash = block.hash;
  const float width = std::max(width_ - indent_of(block), px(kNarrowestCell));
  switch (block.kind) {
  case Kind::rule: laid.height = px(9); break;
  case Kind::code:
    laid.code = lay_out_code(block, width);
    laid.height = laid.code.height;
    break;
  case Kind::table: lay_out_table(block, width, laid); break;
  default: laid.text = lay_out(block.runs, font_of(block), width); laid.height = laid.text.height;
  }
}

// If the widest cells do not fit, cells wrap.
void MarkdownView::lay_out_table(const MarkdownBlock& block, float width, Laid& laid) {
  size_t columns = 0;
  for (const auto& row : block.rows) columns = std::max(columns, row.size());
  laid.widths.assign(columns, px(kNarrowestCell));
  for (const auto& row : block.rows)
    for (size_t c = 0; c < row.size(); ++c)
      laid.widths[c] = std::max(laid.widths[c], lay_out(row[c], fonts().body, 1e6f).width + px(1));
  const float room = width - static_cast<float>(columns) * 2 * px(kCellPad);
  while (std::accumulate(laid.widths.begin(), laid.widths.end(), 0.0f) > room) {
    float& widest = *std::ranges::max_element(laid.widths);
    if (widest <= px(kNarrowestCell)) break;
    widest = std::max(px(kNarrowestCell), widest - std::max(px(4), widest / 16));
  }
  for (const auto& row : block.rows) {
    std::vector<TextLayout> cells;
    float height = 0;
    for (size_t c = 0; c < row.size(); ++c) {
      cells.push_back(lay_out(row[c], fonts().body, laid.widths[c]));
      height = std::max(height, cells.back().height);
    }
    laid.cells.push_back(std::move(cells));
    laid.heights.push_back(height + 2 * px(kRowPad));
    laid.height += laid.heights.back();
  }
}

void MarkdownView::draw_block(const MarkdownBlock& block, const Laid& laid, ImVec2 at, TextHover& hover) {
  const float width = std::max(width_ - indent_of(block), px(kNarrowestCell));
  switch (block.kind) {
  case Kind::rule:
    ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + px(4)}, {at.x + width, at.y + px(5)}, theme().border);
    break;
  case Kind::code:
    draw_code(block, laid.code, width, hover);
    end_ = {at.x, at.y + laid.height};
    break;
  case Kind::table: draw_table(block, laid, at, hover); break;
  default:
    draw_text(block.runs, laid.text, font_of(block), at, hover);
    if (!laid.text.pieces.empty()) {
      const TextLayout::Piece& last = laid.text.pieces.back();
      end_ = {at.x + last.at.x + last.width, at.y + last.at.y};
    }
  }
}

void MarkdownView::draw_table(const MarkdownBlock& block, const Laid& laid, ImVec2 at, TextHover& hover) {
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  float whole = 0;
  for (const float width : laid.widths) whole += width + 2 * px(kCellPad);
  for (size_t r = 0; r < block.rows.size(); ++r) {
    if (r == 0)
      draw->AddRectFilled(at, {at.x + whole, at.y + laid.heights[0]}, theme().raised, px(6),
                          ImDrawFlags_RoundCornersTop);
    float x = at.x;
    for (size_t c = 0; c < laid.widths.size(); ++c) {
      if (c < laid.cells[r].size()) {
        const TextLayout& cell = laid.cells[r][c];
        const auto align = c < block.aligns.size() ? block.aligns[c] : MarkdownBlock::Align::left;
        const float space = laid.widths[c] - cell.width;
        const float before = align == MarkdownBlock::Align::right    ? space
                             : align == MarkdownBlock::Align::center ? space / 2
                                                                     : 0;
        draw_text(block.rows[r][c], cell, fonts().body, {x + px(kCellPad) + std::max(0.0f, before), at.y + px(kRowPad)},
                  hover);
      }
      x += laid.widths[c] + 2 * px(kCellPad);
    }
    at.y += laid.heights[r];
    draw->AddRectFilled({at.x, at.y - px(1)}, {at.x + whole, at.y}, theme().border);
  }
}

} // namespace ridge::ui
