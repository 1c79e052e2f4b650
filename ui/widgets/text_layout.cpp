#include "ui/widgets/text_layout.h"

#include "core/strings/utf8.h"
#include "ui/widgets/glyphs.h"
#include "ui/widgets/places.h"
#include "ui/widgets/widgets.h"

#include <algorithm>

namespace ridge::ui {
namespace {

using text::MarkdownRun;
using text::MarkdownRuns;

constexpr float kSlant = 0.2f;                                   // shift of italics per height
constexpr float kLineHeights = 1.45f, kPlainLineHeights = 1.25f; // relative to the font

ImFont* font_of(const MarkdownRun& run, ImFont* font) {
  if (run.style & (text::kCode | text::kLatex)) return fonts().mono;
  return font == fonts().body && (run.style & text::kBold) ? fonts().bold : font;
}

float advance(ImFont* font, std::string_view& text) { // consumes the first character
  const ImWchar shown = showable(core::take_character(text), font);
  return shown == 0 ? 0 : font->GetCharAdvance(shown);
}

float width_of(std::string_view text, ImFont* font) {
  float width = 0;
  while (!text.empty()) width += advance(font, text);
  return width;
}

// Scripts that break at every character.
bool breaks_anywhere(char32_t c) {
  return (c >= 0x2e80 && c < 0xa000) || (c >= 0xac00 && c < 0xd7b0) || (c >= 0xf900 && c < 0xfb00) ||
         (c >= 0xff00 && c < 0xffe0) || (c >= 0x20000 && c < 0x40000);
}
// Marks that must not begin a line.
bool cannot_begin_line(char32_t c) {
  return std::u32string_view(U"、。，．：；？！）］｝」』〉》】ー").find(c) != std::u32string_view::npos;
}

class Layouter {
 public:
  Layouter(const MarkdownRuns& runs, ImFont* font, float width, float line_heights)
      : runs_(runs), font_(font), width_(std::max(width, font->FontSize)), line_(font->FontSize * line_heights) {}

  TextLayout layout() {
    for (uint32_t i = 0; i < runs_.size(); ++i) {
      const bool display = runs_[i].display;
      if (display) end_line();
      const size_t first = layout_.pieces.size();
      add(i);
      if (!display) continue;
      end_line();
      center_from(first);
    }
    place_word();
    layout_.height = x_ > 0 || layout_.pieces.empty() ? y_ + line_ : y_;
    return std::move(layout_);
  }

 private:
  using Piece = TextLayout::Piece;

  void add(uint32_t run) {
    const std::string_view whole = runs_[run].text;
    ImFont* const font = font_of(runs_[run], font_);
    uint32_t begin = 0;
    for (std::string_view rest = whole; !rest.empty();) {
      const auto at = static_cast<uint32_t>(whole.size() - rest.size());
      const char32_t c = core::take_character(rest);
      const auto next = static_cast<uint32_t>(whole.size() - rest.size());
      const bool anywhere = breaks_anywhere(c);
      if (c != ' ' && c != '\n' && c != '\t' && !anywhere) continue;
      if (at > begin) word_.push_back(piece(run, begin, at, font));
      begin = next;
      if (anywhere) {
        if (!cannot_begin_line(c)) place_word();
        word_.push_back(piece(run, at, next, font));
        continue;
      }
      place_word();
      if (c == '\n')
        new_line();
      else if (x_ > 0)
        place(piece(run, at, next, font));
    }
    if (begin < whole.size()) word_.push_back(piece(run, begin, static_cast<uint32_t>(whole.size()), font));
  }

  Piece piece(uint32_t run, uint32_t begin, uint32_t end, ImFont* font) const {
    return {run, begin, end, {}, width_of(std::string_view(runs_[run].text).substr(begin, end - begin), font)};
  }

  void place_word() {
    float width = 0;
    for (const Piece& part : word_) width += part.width;
    if (x_ > 0 && x_ + width > width_) new_line();
    for (const Piece& part : word_) width > width_ ? place_cut(part) : place(part);
    word_.clear();
  }

  void place_cut(Piece part) {
    ImFont* const font = font_of(runs_[part.run], font_);
    while (part.begin < part.end) {
      std::string_view rest = std::string_view(runs_[part.run].text).substr(part.begin, part.end - part.begin);
      const size_t size = rest.size();
      size_t taken = 0;
      float width = 0;
      while (!rest.empty()) {
        const float next = advance(font, rest);
        if (x_ + width + next > width_ && (taken > 0 || x_ > 0)) break;
        width += next;
        taken = size - rest.size();
      }
      if (taken > 0) place({part.run, part.begin, part.begin + static_cast<uint32_t>(taken), {}, width});
      part.begin += static_cast<uint32_t>(taken);
      if (part.begin < part.end) new_line();
    }
  }

  void place(Piece part) {
    part.at = {x_, y_};
    x_ += part.width;
    layout_.width = std::max(layout_.width, x_);
    if (!layout_.pieces.empty()) {
      Piece& last = layout_.pieces.back();
      if (last.run == part.run && last.end == part.begin && last.at.y == y_) {
        last.end = part.end;
        last.width += part.width;
        return;
      }
    }
    layout_.pieces.push_back(part);
  }

  void new_line() {
    x_ = 0;
    y_ += line_;
  }
  void end_line() {
    place_word();
    if (x_ > 0) new_line();
  }

  void center_from(size_t first) {
    for (size_t i = first; i < layout_.pieces.size();) {
      size_t end = i;
      float width = 0;
      for (; end < layout_.pieces.size() && layout_.pieces[end].at.y == layout_.pieces[i].at.y; ++end)
        width = layout_.pieces[end].at.x + layout_.pieces[end].width;
      for (; i < end; ++i) layout_.pieces[i].at.x += std::max(0.0f, (width_ - width) / 2);
    }
  }

  const MarkdownRuns& runs_;
  ImFont* const font_;
  const float width_, line_;
  float x_ = 0, y_ = 0;
  std::vector<Piece> word_;
  TextLayout layout_;
};

void slant(ImDrawList* draw, int first_vertex, float baseline) {
  for (int i = first_vertex; i < draw->VtxBuffer.Size; ++i)
    draw->VtxBuffer[i].pos.x += (baseline - draw->VtxBuffer[i].pos.y) * kSlant;
}

void draw_piece(const MarkdownRun& run, std::string_view shown, ImFont* font, ImVec2 at, float line, float width,
                ImU32 color) {
  ImDrawList* const draw = ImGui::GetWindowDrawList();
  const float y = at.y + (line - font->FontSize) / 2;
  if (run.style & (text::kCode | text::kLatex))
    draw->AddRectFilled({at.x - px(2), y - px(2)}, {at.x + width + px(2), y + font->FontSize + px(2)}, theme().raised,
                        px(3));
  const int first_vertex = draw->VtxBuffer.Size;
  text_at({at.x, y}, shown, color, font);
  if (run.style & text::kItalic) slant(draw, first_vertex, y + font->Ascent);
  const auto stroke = [&](float height) { draw->AddRectFilled({at.x, height}, {at.x + width, height + px(1)}, color); };
  if (run.style & text::kStruck) stroke(y + font->FontSize * 0.55f);
  if (run.style & text::kLink) stroke(y + font->Ascent + px(2));
}

} // namespace

size_t character_at(std::string_view text, ImFont* font, float left, float x) {
  size_t at = 0;
  for (std::string_view rest = text; !rest.empty();) {
    left += advance(font, rest);
    if (left > x) break;
    if (!rest.empty()) at = text.size() - rest.size();
  }
  return at;
}

TextLayout lay_out(const MarkdownRuns& runs, ImFont* font, float width) {
  return Layouter(runs, font, width, kLineHeights).layout();
}

TextLayout lay_out_plain(std::string_view text, ImFont* font, float width) {
  MarkdownRuns runs(1);
  runs[0].text = text;
  return Layouter(runs, font, width, kPlainLineHeights).layout();
}

void draw_plain(std::string_view text, const TextLayout& layout, ImFont* font, ImVec2 from, ImU32 color) {
  const float above = font->FontSize * (kPlainLineHeights - 1) / 2;
  for (const TextLayout::Piece& piece : layout.pieces)
    text_at({from.x + piece.at.x, from.y + piece.at.y + above}, text.substr(piece.begin, piece.end - piece.begin),
            color, font);
}

void draw_text(const MarkdownRuns& runs, const TextLayout& layout, ImFont* base, ImVec2 from, TextHover& hover) {
  const float line = base->FontSize * kLineHeights;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  for (const TextLayout::Piece& piece : layout.pieces) {
    const MarkdownRun& run = runs[piece.run];
    ImFont* const font = font_of(run, base);
    const ImVec2 at = {from.x + piece.at.x, from.y + piece.at.y};
    const std::string_view shown = std::string_view(run.text).substr(piece.begin, piece.end - piece.begin);
    const bool is_link = (run.style & text::kLink) && !run.address.empty();
    draw_piece(run, shown, font, at, line, piece.width, is_link ? theme().accent : theme().text);
    if (is_link) record_widget_position(run.text, at, {at.x + piece.width, at.y + line});
    if (mouse.x < at.x || mouse.x >= at.x + piece.width || mouse.y < at.y || mouse.y >= at.y + line) continue;
    hover.byte = run.source + (run.verbatim ? piece.begin + character_at(shown, font, at.x, mouse.x) : 0);
    if (is_link) hover.link = &run;
  }
}

} // namespace ridge::ui
