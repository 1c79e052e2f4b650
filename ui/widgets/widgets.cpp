#include "ui/widgets/widgets.h"

#include "core/strings/utf8.h"
#include "ui/widgets/glyphs.h"
#include "ui/widgets/places.h"
#include "ui/widgets/text_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::ui {
namespace {

std::string scaled(double number, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  while (number >= 999.5 && unit + 1 != units.end()) {
    number /= 1000;
    ++unit;
  }
  const int decimals = unit == units.begin() || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", number, decimals, *unit);
}

} // namespace

std::string count_text(double count) { return scaled(count, {"", " k", " M", " B", " T"}); }
std::string seconds_text(double seconds) {
  return seconds < 0.9995e-3 ? fmt::format("{:.3g} µs", seconds * 1e6) : fmt::format("{:.3g} ms", seconds * 1e3);
}
std::string number_text(double number) {
  return std::abs(number) >= 1e-3 || number == 0 ? fmt::format("{:.4g}", number) : fmt::format("{:.2e}", number);
}

void text(std::string_view text, ImU32 color, ImFont* font) {
  text = showable(text, font ? font : ImGui::GetFont());
  if (font) ImGui::PushFont(font);
  ImGui::PushStyleColor(ImGuiCol_Text, color);
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  ImGui::PopStyleColor();
  if (font) ImGui::PopFont();
}

void dim_text(std::string_view label) { text(label, theme().dim, fonts().small); }
void field_label(std::string_view text) {
  ImGui::Dummy({0, 0});
  dim_text(text);
}

void title(std::string_view label) { text(label, theme().text, fonts().title); }

ImVec2 size_of(std::string_view text, ImFont* font) {
  text = showable(text, font);
  return font->CalcTextSizeA(font->FontSize, INFINITY, 0, text.data(), text.data() + text.size());
}

std::string fitting(std::initializer_list<std::string> longest_first, float width, ImFont* font) {
  for (const std::string& text : longest_first)
    if (size_of(text, font).x <= width) return text;
  return longest_first.size() ? *(longest_first.end() - 1) : "";
}

void text_at(ImVec2 at, std::string_view text, ImU32 color, ImFont* font, float align) {
  if (align > 0) at.x -= align * size_of(text, font).x;
  text = showable(text, font);
  ImGui::GetWindowDrawList()->AddText(font, font->FontSize, {std::round(at.x), std::round(at.y)}, color, text.data(),
                                      text.data() + text.size());
}

void wrapped_text(std::string_view text, ImU32 color, ImFont* font, float width) {
  const TextLayout layout = lay_out_plain(text, font, width > 0 ? width : ImGui::GetContentRegionAvail().x);
  draw_plain(text, layout, font, ImGui::GetCursorScreenPos(), color);
  ImGui::Dummy({layout.width, layout.height});
}

std::string shortened(std::string_view text, float width, ImFont* font) {
  if (size_of(text, font).x <= width) return std::string(text);
  std::string shown(text);
  while (!shown.empty() && size_of(shown + "…", font).x > width) {
    while (!shown.empty() && core::is_utf8_continuation(shown.back())) shown.pop_back();
    if (!shown.empty()) shown.pop_back();
  }
  while (shown.ends_with(' ')) shown.pop_back();
  return shown + "…";
}

void begin_card(const char* id, ImVec2 size, const char* heading, bool scrolls) {
  ImGui::PushStyleColor(ImGuiCol_ChildBg, theme().surface);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(px(16), px(14)));
  ImGui::BeginChild(id, size, false,
                    ImGuiWindowFlags_AlwaysUseWindowPadding |
                        (scrolls ? 0 : ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse));
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
  if (heading) text(heading, theme().dim, fonts().small);
}

void end_card() { ImGui::EndChild(); }

bool segments(const char* id, std::initializer_list<const char*> labels, int& chosen) {
  bool changed = false;
  int number = 0;
  ImGui::PushID(id);
  ImGui::PushFont(fonts().small);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(px(10), px(4)));
  for (const char* label : labels) {
    const bool on = number == chosen;
    if (number > 0) ImGui::SameLine(0, px(4));
    ImGui::PushStyleColor(ImGuiCol_Button, on ? theme().raised : with_alpha(theme().raised, 0));
    ImGui::PushStyleColor(ImGuiCol_Text, on ? theme().text : theme().dim);
    if (ImGui::Button(label) && !on) {
      chosen = number;
      changed = true;
    }
    record_widget_position(label);
    const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
    if (on)
      ImGui::GetWindowDrawList()->AddRectFilled({from.x + px(8), to.y - px(2)}, {to.x - px(8), to.y}, theme().accent,
                                                px(1));
    ImGui::PopStyleColor(2);
    ++number;
  }
  ImGui::PopStyleVar();
  ImGui::PopFont();
  ImGui::PopID();
  return changed;
}

bool quiet_button(const char* label) {
  ImGui::PushFont(fonts().small);
  ImGui::PushStyleColor(ImGuiCol_Button, with_alpha(theme().raised, 0));
  ImGui::PushStyleColor(ImGuiCol_Text, theme().dim);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(px(7), px(3)));
  const bool pressed = ImGui::Button(label);
  record_widget_position(label);
  ImGui::PopStyleVar();
  ImGui::PopStyleColor(2);
  ImGui::PopFont();
  return pressed;
}

bool accent_button(const char* label, ImVec2 size) {
  const Theme& t = theme();
  ImGui::PushStyleColor(ImGuiCol_Button, t.accent);
  ImGui::PushStyleColor(ImGuiCol_ButtonHovered, mix(t.accent, t.text, 0.15f));
  ImGui::PushStyleColor(ImGuiCol_ButtonActive, mix(t.accent, t.text, 0.3f));
  ImGui::PushStyleColor(ImGuiCol_Text, t.on_accent);
  const bool pressed = plain_button(label, size);
  ImGui::PopStyleColor(4);
  return pressed;
}

bool plain_button(const char* label, ImVec2 size) {
  const bool pressed = ImGui::Button(label, size);
  record_widget_position(label);
  return pressed;
}

void bar(float share, ImVec2 size, ImU32 color) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  if (size.x <= 0) size.x = ImGui::GetContentRegionAvail().x + size.x;
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float radius = size.y / 2, filled = std::clamp(share, 0.0f, 1.0f) * size.x;
  draw->AddRectFilled(at, {at.x + size.x, at.y + size.y}, theme().raised, radius);
  if (filled > 0) draw->AddRectFilled(at, {at.x + std::max(filled, size.y), at.y + size.y}, color, radius);
  ImGui::Dummy(size);
}

void tooltip(std::string_view text) {
  if (ImGui::IsItemHovered()) show_tooltip(text);
}

void show_tooltip(std::string_view text) {
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(px(10), px(8)));
  ImGui::BeginTooltip();
  wrapped_text(text, theme().text, fonts().small, px(420));
  ImGui::EndTooltip();
  ImGui::PopStyleVar();
}

} // namespace ridge::ui
