#include "ui/widgets/markdown.h"

#include "core/strings/utf8.h"
#include "ui/widgets/glyphs.h"
#include "ui/widgets/widgets.h"

#include <algorithm>
#include <string>

namespace ridge::ui {
namespace {

struct Style {
  bool bold = false, code = false;
};

float advance(ImFont* font, std::string_view& text) { // of its first character, which is taken off
  const ImWchar shown = showable(core::take_character(text), font);
  return shown == 0 ? 0 : font->GetCharAdvance(shown);
}

// The part of `text` that is drawn within `width`, at least one character.
std::string_view fitting(std::string_view text, ImFont* font, float width) {
  std::string_view rest = text;
  float x = advance(font, rest);
  size_t end = text.size() - rest.size();
  while (!rest.empty() && (x += advance(font, rest)) <= width) end = text.size() - rest.size();
  return text.substr(0, end);
}

// The start of the character of `text`, drawn from `left` on, that lies at x.
const char* character_at(std::string_view text, ImFont* font, float left, float x) {
  const char* at = text.data();
  while (!text.empty() && (left += advance(font, text)) <= x)
    if (!text.empty()) at = text.data();
  return at;
}

// Words flow from left to right and onto the next line.
class Flow {
 public:
  // `hovered`: set where the mouse is over a word.
  Flow(const char*& hovered, float width, float indent, ImFont* font)
      : hovered_(hovered), start_(ImGui::GetCursorScreenPos()), at_{start_.x + indent, start_.y},
        right_(start_.x + width), indent_(indent), font_(font), line_(font->FontSize * 1.45f) {}

  void word(std::string_view word, Style style) {
    ImFont* font = style.code ? fonts().mono : style.bold ? fonts().bold : font_;
    float width = size_of(word, font).x;
    if (at_.x + width > right_ && at_.x > start_.x + indent_ && word != " ") new_line();
    while (at_.x + width > right_ && word.size() > 1) { // longer than a line: cut where it ends
      const std::string_view part = fitting(word, font, right_ - at_.x);
      put(part, font, style);
      word.remove_prefix(part.size());
      width = size_of(word, font).x;
      if (!word.empty()) new_line();
    }
    put(word, font, style);
  }
  void finish() { ImGui::Dummy({right_ - start_.x, at_.y + line_ - start_.y}); }

 private:
  void new_line() { at_ = {start_.x + indent_, at_.y + line_}; }
  void put(std::string_view word, ImFont* font, Style style) {
    const ImVec2 size = size_of(word, font);
    const float y = at_.y + (line_ - font->FontSize) / 2;
    if (style.code)
      ImGui::GetWindowDrawList()->AddRectFilled({at_.x - px(1), y - px(1)},
                                                {at_.x + size.x + px(1), y + size.y + px(1)}, theme().raised, px(3));
    text_at({at_.x, y}, word, theme().text, font);
    if (ImGui::IsMouseHoveringRect({at_.x, at_.y}, {at_.x + size.x, at_.y + line_}))
      hovered_ = character_at(word, font, at_.x, ImGui::GetIO().MousePos.x);
    at_.x += size.x;
  }

  const char*& hovered_;
  ImVec2 start_, at_;
  float right_, indent_;
  ImFont* font_;
  float line_;
};

void paragraph(const char*& hovered, std::string_view text, float width, float indent, ImFont* font) {
  Flow flow(hovered, width, indent, font);
  Style style{font == fonts().title, false};
  size_t start = 0;
  const auto flush = [&](size_t end) {
    while (start < end) {
      const size_t space = text.find(' ', start);
      const size_t stop = std::min(end, space == start ? start + 1 : space);
      flow.word(text.substr(start, stop - start), style);
      start = stop;
    }
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '`' && (style.code || text.find('`', i + 1) != std::string_view::npos)) {
      flush(i);
      style.code = !style.code;
      start = i + 1;
    } else if (!style.code && text.substr(i, 2) == "**" &&
               (style.bold || text.find("**", i + 2) != std::string_view::npos)) {
      flush(i);
      style.bold = !style.bold;
      start = ++i + 1;
    }
  }
  flush(text.size());
  flow.finish();
}

void code_block(const char*& hovered, std::string_view code, std::string_view language, float width, int number) {
  while (!code.empty() && code.back() == '\n') code.remove_suffix(1);
  ImFont* font = fonts().mono;
  const float header = px(26), pad = px(12);
  const ImVec2 text_size = size_of(code, font);
  const bool wide = text_size.x > width - 2 * pad;
  const float height = header + text_size.y + pad + (wide ? ImGui::GetStyle().ScrollbarSize : 0);
  ImGui::PushID(number);
  ImGui::PushStyleColor(ImGuiCol_ChildBg, theme().raised);
  ImGui::BeginChild("code", {width, height});
  ImGui::SetCursorPos({pad, px(6)});
  dim_text(language.empty() ? "code" : language);
  ImGui::SetCursorPos({width - px(56), px(3)});
  if (quiet_button("copy")) ImGui::SetClipboardText(std::string(code).c_str());
  ImGui::SetCursorPos({pad, header});
  ImGui::BeginChild("lines", {width - 2 * pad, 0}, false, ImGuiWindowFlags_HorizontalScrollbar);
  const ImVec2 at = ImGui::GetCursorScreenPos(), mouse = ImGui::GetIO().MousePos;
  text(code, theme().text, font);
  if (ImGui::IsItemHovered()) {
    std::string_view line = code;
    for (auto skip = static_cast<int>((mouse.y - at.y) / font->FontSize); skip > 0; --skip)
      line.remove_prefix(std::min(line.find('\n'), line.size() - 1) + 1);
    line = line.substr(0, line.find('\n'));
    if (!line.empty() && mouse.x < at.x + size_of(line, font).x) hovered = character_at(line, font, at.x, mouse.x);
  }
  ImGui::EndChild();
  ImGui::EndChild();
  ImGui::PopStyleColor();
  ImGui::PopID();
}

} // namespace

size_t markdown(std::string_view text, float width, MarkdownHeights& heights) {
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, px(3)));
  const char *const begin = text.data(), *hovered = nullptr;
  const float top = ImGui::GetWindowPos().y, bottom = top + ImGui::GetWindowHeight();
  for (size_t number = 0; !text.empty(); ++number) {
    const char* const line_begin = text.data();
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const std::string_view content = line.substr(indent);
    std::string_view code;
    const bool is_code = content.starts_with("```");
    if (is_code) {
      const size_t close = text.starts_with("```") ? 0 : text.find("\n```");
      code = text.substr(0, close); // to the end, while it is being written
      text.remove_prefix(code.size());
      if (close != std::string_view::npos) {
        if (text.starts_with('\n')) text.remove_prefix(1);
        const size_t fence = text.find('\n');
        text.remove_prefix(fence == std::string_view::npos ? text.size() : fence + 1);
      }
    }
    if (heights.lines.size() <= number) heights.lines.push_back({0, 0});
    MarkdownHeights::Line& known = heights.lines[number];
    const auto bytes = static_cast<size_t>(text.data() - line_begin);
    const float y = ImGui::GetCursorScreenPos().y, before = ImGui::GetCursorPosY();
    if (known.bytes == bytes && (y + known.pixels < top || y > bottom)) { // out of sight
      ImGui::Dummy({width, known.pixels - ImGui::GetStyle().ItemSpacing.y});
      continue;
    }
    if (is_code) {
      code_block(hovered, code, content.substr(3), width, static_cast<int>(number));
    } else if (content.empty()) {
      ImGui::Dummy({0, px(5)});
    } else if (content[0] == '#') {
      const size_t level = std::min(content.find_first_not_of("# "), content.size());
      paragraph(hovered, content.substr(level), width, 0, fonts().bold);
    } else if (content.starts_with("- ") || content.starts_with("* ")) {
      const float left = px(8.0f + 8.0f * static_cast<float>(std::min<size_t>(indent, 12)));
      const ImVec2 at = ImGui::GetCursorScreenPos();
      ImGui::GetWindowDrawList()->AddCircleFilled({at.x + left, at.y + fonts().body->FontSize * 0.75f}, px(2.5f),
                                                  theme().dim);
      paragraph(hovered, content.substr(2), width, left + px(12), fonts().body);
    } else {
      paragraph(hovered, content, width, px(8.0f * static_cast<float>(std::min<size_t>(indent, 12))), fonts().body);
    }
    known = {bytes, ImGui::GetCursorPosY() - before};
  }
  ImGui::PopStyleVar();
  return hovered && ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows) ? static_cast<size_t>(hovered - begin)
                                                                           : kNothingHovered;
}

} // namespace ridge::ui
