// Panel list, status line, errors, help.
#include "core/units.h"
#include "ui/widgets/icons.h"
#include "ui/widgets/places.h"
#include "ui/widgets/text_layout.h"
#include "ui/widgets/widgets.h"
#include "ui/window_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ridge::ui {

using api::EngineState;

namespace {

struct Shortcut {
  const char *keys, *what;
};
constexpr Shortcut kShortcuts[] = {
    {"Ctrl 1 … 9", "show a panel"},
    {"Ctrl O", "open a model or a checkpoint's folder"},
    {"Ctrl V", "paste text, an image, or paths of images or audio files"},
    {"Enter", "send the message"},
    {"Shift Enter", "new line in the message"},
    {"Esc", "leave a field; stop the answer"},
    {"Ctrl R", "regenerate the last answer"},
    {"Ctrl N", "new conversation"},
    {"Ctrl L", "switch between light and dark"},
    {"Ctrl + − 0", "zoom in, zoom out, reset"},
    {"Tab, arrows, Space", "reach and use all controls"},
    {"F1", "show this list"},
    {"Ctrl Q", "close the window"},
};

} // namespace

void Window::Impl::draw_window(const api::Snapshot& now) {
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({0, 0});
  ImGui::SetNextWindowSize(size);
  ImGui::Begin("ridge", nullptr,
               ImGuiWindowFlags_NoBackground | // already cleared
                   ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoBringToFrontOnFocus | ImGuiWindowFlags_NoScrollWithMouse);
  const bool narrow = size.x < px(1000);
  const float rail = px(narrow ? 56 : 148), status = px(32), margin = px(16);
  ImGui::BeginChild("rail", {rail, size.y});
  draw_rail(narrow);
  ImGui::EndChild();
  ImGui::SetCursorPos({rail + px(4), margin});
  ImGui::BeginChild("content", {size.x - rail - px(4) - margin, size.y - status - margin - px(4)}, false,
                    ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
  draw_error(now);
  draw_notices(now);
  if (now.model || !panels()[panel].needs_model) {
    ImGui::PushID(static_cast<int>(panel.load()));
    shown[panel]->draw({now, engine->send, layout});
    ImGui::PopID();
  } else {
    draw_no_model(now);
  }
  ImGui::EndChild();
  ImGui::SetCursorPos({rail + px(4), size.y - status});
  ImGui::BeginChild("status", {size.x - rail - px(4) - margin, status}, false, ImGuiWindowFlags_NoScrollbar);
  draw_status(now);
  ImGui::EndChild();
  draw_help();
  dialog.draw(now);
  tool_question.draw(now, engine->send);
  ImGui::End();
}

void Window::Impl::draw_no_model(const api::Snapshot& now) {
  const ImVec2 at = ImGui::GetWindowPos(), area = ImGui::GetWindowSize();
  const bool failed = now.state == EngineState::failed;
  text_at({at.x + area.x / 2, at.y + area.y / 2 - px(24)}, failed ? "No model is open" : "One moment…", theme().text,
          fonts().title, 0.5f);
  text_at({at.x + area.x / 2, at.y + area.y / 2 + px(6)}, failed ? "Drop a GGUF file on this window, or" : now.activity,
          theme().dim, fonts().body, 0.5f);
  if (failed) {
    ImGui::SetCursorPos({area.x / 2 - px(156), area.y / 2 + px(40)});
    if (accent_button("Open a file…", {px(150), px(34)})) ask_for_file();
    ImGui::SameLine(0, px(12));
    if (ImGui::Button("Open the guide", {px(150), px(34)})) engine->send(api::intent::OpenModel{""});
  }
}

// A narrow rail has tooltips instead of labels.
void Window::Impl::draw_rail(bool narrow) {
  const float width = px(narrow ? 40 : 124), height = px(34), icon = px(16);
  ImGui::SetCursorPos({px(22), px(18)});
  text(narrow ? "r" : "ridge", theme().text, fonts().title);
  ImGui::SetCursorPosY(px(64));
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, px(4)));
  const auto item = [&](const char* label, Icon picture, bool chosen) {
    ImGui::SetCursorPosX(px(narrow ? 8 : 12));
    const ImU32 color = chosen ? theme().text : theme().dim;
    ImGui::PushStyleColor(ImGuiCol_Button, chosen ? theme().raised : with_alpha(theme().raised, 0));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImGui::PushID(label);
    const bool pressed = ImGui::Button("##item", {width, height});
    ImGui::PopID();
    record_widget_position(label);
    ImGui::PopStyleColor();
    if (narrow) tooltip(label);
    draw_icon(picture, {at.x + px(narrow ? 12 : 11), at.y + (height - icon) / 2}, icon,
              chosen ? theme().accent : color);
    if (!narrow) text_at({at.x + px(36), at.y + (height - fonts().body->FontSize) / 2}, label, color, fonts().body);
    if (chosen)
      ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + px(8)}, {at.x + px(3), at.y + px(26)}, theme().accent,
                                                px(2));
    return pressed;
  };
  for (size_t i = 0; i < shown.size(); ++i)
    if (item(panels()[i].title, panels()[i].icon, i == panel)) panel = i;
  ImGui::SetCursorPosY(ImGui::GetWindowHeight() - px(126));
  if (item("Open…", Icon::open, false)) ask_for_file();
  if (item(dark ? "Light" : "Dark", dark ? Icon::light : Icon::dark, false)) set_dark(!dark);
  if (item("Keys", Icon::keys, help)) help = true;
  ImGui::PopStyleVar();
}

void Window::Impl::draw_status(const api::Snapshot& now) const {
  const Theme& t = theme();
  const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  const float y = at.y + (size.y - fonts().small->FontSize) / 2;
  const bool busy = now.state == EngineState::reading || now.state == EngineState::writing ||
                    now.state == EngineState::loading || now.state == EngineState::measuring;
  const ImU32 dot = now.state == EngineState::failed ? t.red : busy ? t.amber : t.green;
  ImGui::GetWindowDrawList()->AddCircleFilled({at.x + px(6), at.y + size.y / 2}, px(4), dot);
  std::string left = now.model ? fmt::format("{} · {}", now.model->label, now.model->engine) : "no model";
  left += fmt::format(" · {}", !now.activity.empty() ? now.activity : now.model ? "ready" : "waiting for a file");
  std::string right;
  if (now.speed.tokens_per_s > 0)
    right = fmt::format("{:.1f} tok/s · {}/s · context {} of {}", now.speed.tokens_per_s,
                        core::human_bytes(now.speed.bytes_per_s), now.kv.tokens, now.kv.context);
  const float room = size.x - px(42) - size_of(right, fonts().small).x;
  text_at({at.x + px(18), y}, shortened(left, room, fonts().small), t.dim, fonts().small);
  text_at({at.x + size.x, y}, right, t.dim, fonts().small, 1);
}

// Notices since the model was opened that were not dismissed.
void Window::Impl::draw_notices(const api::Snapshot& now) {
  const uint64_t unseen = std::min<uint64_t>(now.notice_number - dismissed_notice, now.notices.size());
  if (unseen == 0) return;
  std::string lines;
  for (size_t i = now.notices.size() - unseen; i < now.notices.size(); ++i)
    lines += (lines.empty() ? "" : "\n") + now.notices[i];
  const float width = ImGui::GetContentRegionAvail().x, inner = width - px(120);
  const TextLayout layout = lay_out_plain(lines, fonts().small, inner);
  ImGui::PushStyleColor(ImGuiCol_ChildBg, mix(theme().surface, theme().amber, 0.14f));
  ImGui::BeginChild("notices", {width, layout.height + px(16)});
  const ImVec2 at = ImGui::GetWindowPos();
  draw_plain(lines, layout, fonts().small, {at.x + px(16), at.y + px(8)}, theme().text);
  ImGui::SetCursorPos({width - px(80), px(5)});
  if (quiet_button("dismiss")) dismissed_notice = now.notice_number;
  ImGui::EndChild();
  ImGui::PopStyleColor();
}

void Window::Impl::draw_error(const api::Snapshot& now) {
  if (now.error_number == dismissed_error) return;
  const Theme& t = theme();
  const float width = ImGui::GetContentRegionAvail().x, inner = width - px(now.gpu_failed ? 258 : 120);
  const TextLayout layout = lay_out_plain(now.error, fonts().body, inner);
  ImGui::PushStyleColor(ImGuiCol_ChildBg, mix(t.surface, t.red, 0.22f));
  ImGui::BeginChild("error", {width, layout.height + px(20)});
  const ImVec2 at = ImGui::GetWindowPos();
  draw_plain(now.error, layout, fonts().body, {at.x + px(16), at.y + px(10)}, t.text);
  ImGui::SetCursorPos({width - px(88), px(9)});
  if (now.gpu_failed) {
    ImGui::SetCursorPosX(width - px(226));
    if (quiet_button("continue on the CPU")) {
      engine->send(api::intent::UseCpu{});
      dismissed_error = now.error_number;
    }
    ImGui::SameLine();
  }
  if (quiet_button("dismiss")) dismissed_error = now.error_number;
  ImGui::EndChild();
  ImGui::PopStyleColor();
}

// Shown until a click outside, Escape, or a change of panel.
void Window::Impl::draw_help() {
  constexpr const char* kName = "##keys";
  if (help && !ImGui::IsPopupOpen(kName)) {
    if (help_open) // closed by a click
      help = help_open = false;
    else
      ImGui::OpenPopup(kName);
  }
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({size.x / 2, size.y / 2}, ImGuiCond_Always, {0.5f, 0.5f});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(px(24), px(20)));
  if (ImGui::BeginPopup(kName, ImGuiWindowFlags_NoMove)) {
    help_open = true;
    title("Keys");
    record_widget_position("keyboard shortcuts");
    ImGui::Dummy({px(360), px(6)});
    for (const Shortcut& shortcut : kShortcuts) {
      text(shortcut.keys, theme().text, fonts().mono);
      ImGui::SameLine(px(200));
      text(shortcut.what, theme().dim);
    }
    if (!help) {
      help_open = false;
      ImGui::CloseCurrentPopup();
    }
    ImGui::EndPopup();
  }
  ImGui::PopStyleVar();
}

} // namespace ridge::ui
