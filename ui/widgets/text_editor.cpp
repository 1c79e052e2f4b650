#include "ui/widgets/text_editor.h"

#include "core/strings/utf8.h"
#include "ui/widgets/glyphs.h"
#include "ui/widgets/widgets.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

namespace ridge::ui {
namespace {

constexpr double kBlinkSeconds = 1.2, kVisibleSeconds = 0.8;

float advance(ImFont* font, char32_t c) {
  const ImWchar shown = showable(c == '\t' ? U' ' : c, font);
  return shown == 0 ? 0 : font->GetCharAdvance(shown);
}

} // namespace

bool TextEditor::draw(const char* id_text, ImVec2 size, ImFont* font, Enter enter, std::string_view hint) {
  ImGuiContext& g = *GImGui;
  const float line = std::round(font->FontSize * 1.35f);
  // The item is in the parent window for keyboard navigation; a child window scrolls.
  ImGuiWindow* window = ImGui::GetCurrentWindow();
  const ImGuiID id = window->GetID(id_text);
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  if (size.x <= 0) size.x += ImGui::GetContentRegionAvail().x;
  ImGui::ItemAdd({corner, {corner.x + size.x, corner.y + size.y}}, id, nullptr, ImGuiItemFlags_Inputable);
  const bool by_key = g.NavActivateId == id || g.NavActivateInputId == id ||
                      (g.LastItemData.StatusFlags & ImGuiItemStatusFlags_FocusedByTabbing) != 0;
  ImGui::RenderNavHighlight({corner, {corner.x + size.x, corner.y + size.y}}, id);
  ImGui::PushStyleColor(ImGuiCol_ChildBg, with_alpha(theme().raised, 0));
  ImGui::BeginChild(id_text, size, false, ImGuiWindowFlags_NoNav);
  ImGui::PopStyleColor();
  const float width = ImGui::GetContentRegionAvail().x - px(2);
  text_.set_layout(width, line, [font](char32_t c) { return advance(font, c); });
  std::vector<WrappedText::Row> rows = text_.rows();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  text_height_ = line * static_cast<float>(rows.size());
  const float height = std::max(line * static_cast<float>(rows.size()), ImGui::GetContentRegionAvail().y);
  ImGui::Dummy({width, height});
  const bool was_active = g.ActiveId == id;
  const bool hovered = ImGui::IsWindowHovered(was_active ? ImGuiHoveredFlags_AllowWhenBlockedByActiveItem : 0);
  if (hovered) {
    ImGui::SetHoveredID(id);
    ImGui::SetMouseCursor(ImGuiMouseCursor_TextInput);
  }

  if (!was_active && (focus_ || by_key || (hovered && g.IO.MouseClicked[0]))) {
    ImGui::SetActiveID(id, window);
    ImGui::SetFocusID(id, window);
    ImGui::FocusWindow(window);
    changed_at_ = g.Time;
  }
  focus_ = false;
  if (was_active && g.IO.MouseClicked[0] && !hovered) ImGui::ClearActiveID();
  lost_focus_ = active_ && g.ActiveId != id;
  active_ = g.ActiveId == id;

  bool sent = false;
  if (active_) {
    g.ActiveIdAllowOverlap = !g.IO.MouseDown[0]; // clicks elsewhere take effect
    g.ActiveIdUsingNavDirMask = ~0u;
    g.ActiveIdUsingNavInputMask |= 1u << ImGuiNavInput_Cancel;
    g.ActiveIdUsingKeyInputMask |= ImU64{1} << ImGuiKey_Home | ImU64{1} << ImGuiKey_End;
    g.WantTextInputNextFrame = 1;
    const float x = g.IO.MousePos.x - at.x, y = std::clamp(g.IO.MousePos.y - at.y, 0.0f, height - 1);
    if (hovered && g.IO.MouseDoubleClicked[0]) {
      text_.select_word();
      changed_at_ = g.Time;
    } else if (hovered && g.IO.MouseClicked[0]) {
      g.IO.KeyShift ? text_.drag(x, y) : text_.click(x, y);
      changed_at_ = g.Time;
    } else if (g.IO.MouseDown[0] && !g.IO.MouseDoubleClicked[0] && (g.IO.MouseDelta.x != 0 || g.IO.MouseDelta.y != 0)) {
      text_.drag(x, y);
      show_cursor_ = true;
    }
    sent = take_keys(enter);
    rows = text_.rows();
  }

  if (empty() && !hint.empty()) text_at({at.x, at.y + (line - font->FontSize) / 2}, hint, theme().dim, font);
  draw_text(at, line, font, rows);
  if (show_cursor_) {
    const auto row = std::ranges::find_if(
        rows, [&](const WrappedText::Row& r) { return text_.cursor() >= r.begin && text_.cursor() < r.end; });
    const float top = line * static_cast<float>(std::min<long>(row - rows.begin(), std::ssize(rows) - 1));
    const float view = ImGui::GetWindowHeight();
    if (top < ImGui::GetScrollY()) ImGui::SetScrollY(top);
    if (top + line > ImGui::GetScrollY() + view) ImGui::SetScrollY(top + line - view);
    show_cursor_ = false;
  }
  ImGui::EndChild();
  return sent;
}

bool TextEditor::take_keys(Enter enter) {
  const ImGuiIO& io = ImGui::GetIO();
  const auto pressed = [](ImGuiKey key) { return ImGui::IsKeyPressedMap(key); };
  const bool select = io.KeyShift;
  bool changed = false, sent = false;
  const auto key = [&](bool down, EditKey what) {
    if (!down) return;
    text_.press(what, select);
    changed = true;
  };
  if (!io.KeyCtrl || io.KeyAlt) // AltGr
    for (const ImWchar c : io.InputQueueCharacters)
      if (c >= 0x20 && c != 0x7f) {
        text_.type(c);
        changed = true;
      }
  for (const char32_t c : take_far_characters()) {
    text_.type(c);
    changed = true;
  }
  key(pressed(ImGuiKey_LeftArrow), io.KeyCtrl ? EditKey::word_left : EditKey::left);
  key(pressed(ImGuiKey_RightArrow), io.KeyCtrl ? EditKey::word_right : EditKey::right);
  key(pressed(ImGuiKey_UpArrow), EditKey::up);
  key(pressed(ImGuiKey_DownArrow), EditKey::down);
  key(pressed(ImGuiKey_Home), io.KeyCtrl ? EditKey::text_start : EditKey::line_start);
  key(pressed(ImGuiKey_End), io.KeyCtrl ? EditKey::text_end : EditKey::line_end);
  key(pressed(ImGuiKey_Delete), EditKey::remove);
  if (pressed(ImGuiKey_Backspace)) {
    const auto [begin, end] = text_.selection();
    if (io.KeyCtrl && begin == end) text_.press(EditKey::word_left, true);
    text_.press(EditKey::backspace, false);
    changed = true;
  }
  if (pressed(ImGuiKey_Enter) || pressed(ImGuiKey_KeyPadEnter)) {
    if (enter == Enter::sends && !io.KeyCtrl && !io.KeyShift) {
      sent = true;
    } else {
      text_.type('\n');
      changed = true;
    }
  }
  if (io.KeyCtrl && !io.KeyAlt) {
    key(pressed(ImGuiKey_Z) && !io.KeyShift, EditKey::undo);
    key(pressed(ImGuiKey_Y) || (pressed(ImGuiKey_Z) && io.KeyShift), EditKey::redo);
    if (pressed(ImGuiKey_A)) text_.select_all();
    const bool cut = pressed(ImGuiKey_X);
    if (cut || pressed(ImGuiKey_C))
      if (const std::string chosen = text_.selected(); !chosen.empty()) ImGui::SetClipboardText(chosen.c_str());
    if (cut) text_.cut();
    if (pressed(ImGuiKey_V)) {
      const char* const clipboard = ImGui::GetClipboardText();
      if (!clipboard && take_other_) take_other_();
      if (clipboard && (!takes_paste_ || !takes_paste_(clipboard))) text_.paste(clipboard);
    }
    changed |= cut || pressed(ImGuiKey_V);
  }
  if (changed) {
    changed_at_ = ImGui::GetTime();
    show_cursor_ = true;
  }
  return sent;
}

void TextEditor::draw_text(ImVec2 at, float line, ImFont* font, const std::vector<WrappedText::Row>& rows) const {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const std::u32string& text = text_.characters();
  const auto [chosen, chosen_end] = text_.selection();
  const float top = ImGui::GetWindowPos().y, bottom = top + ImGui::GetWindowHeight();
  const bool caret = active_ && std::fmod(ImGui::GetTime() - changed_at_, kBlinkSeconds) <= kVisibleSeconds;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [begin, end] = rows[i];
    const float y = at.y + line * static_cast<float>(i);
    if (y + line < top || y > bottom) continue;
    const auto x_of = [&](int character) {
      float x = at.x;
      for (int c = begin; c < character; ++c)
        if (text[c] != '\n') x += advance(font, text[c]);
      return x;
    };
    if (chosen < end && chosen_end > begin)
      draw->AddRectFilled({x_of(std::max(chosen, begin)), y},
                          {x_of(std::min(chosen_end, end)) + (chosen_end > end ? px(4) : 0), y + line},
                          with_alpha(theme().accent, 0.35f));
    std::string shown;
    for (int c = begin; c < end; ++c)
      if (text[c] != '\n') core::append_utf8(shown, text[c] == '\t' ? U' ' : text[c]);
    text_at({at.x, y + (line - font->FontSize) / 2}, shown, theme().text, font);
    const bool last = i + 1 == rows.size();
    if (caret && text_.cursor() >= begin && (text_.cursor() < end || (last && text_.cursor() == end))) {
      const float x = std::round(x_of(text_.cursor()));
      draw->AddLine({x, y + px(2)}, {x, y + line - px(2)}, theme().text, px(1.4f));
    }
  }
}

} // namespace ridge::ui
