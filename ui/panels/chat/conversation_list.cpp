#include "ui/panels/chat/conversation_list.h"

#include "ui/widgets/places.h"
#include "ui/widgets/widgets.h"

#include <imgui_stdlib.h>

#include <ctime>

namespace ridge::ui {
namespace {

namespace intent = api::intent;

// "14:05" today, else "Nov 12".
std::string when(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds), today = std::time(nullptr);
  std::tm then = {}, now = {};
  ::localtime_r(&time, &then);
  ::localtime_r(&today, &now);
  char text[32];
  const bool same_day = then.tm_yday == now.tm_yday && then.tm_year == now.tm_year;
  return {text, std::strftime(text, sizeof text, same_day ? "%H:%M" : "%b %e", &then)};
}

} // namespace

void ConversationList::draw(const View& view, ImVec2 size) {
  begin_card("conversations", size, nullptr, true);
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(px(6), px(2)));
  const bool busy = view.now.state != api::EngineState::idle; // an answer must stay in its conversation
  ImGui::BeginDisabled(busy);
  if (plain_button("New conversation", {-1, 0})) view.send(intent::NewConversation{});
  tooltip("Ctrl N");
  ImGui::EndDisabled();
  ImGui::Dummy({0, px(2)});
  draw_search(view);
  ImGui::Dummy({0, px(4)});
  for (const api::ConversationRow& row : *view.now.conversations) {
    ImGui::PushID(row.id.c_str());
    const bool renamed = row.id == renaming_; // drawing may change it
    ImGui::BeginDisabled(busy && !renamed);
    renamed ? draw_name_field(view, row) : draw_row(view, row);
    ImGui::EndDisabled();
    ImGui::PopID();
  }
  if (view.now.conversations->empty())
    wrapped_text(view.now.searched.empty() ? "Conversations are saved here." : "No match.", theme().dim, fonts().small);
  ImGui::PopStyleVar();
  end_card();
}

void ConversationList::draw_search(const View& view) {
  ImGui::PushFont(fonts().small);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(px(8), px(5)));
  ImGui::SetNextItemWidth(-1);
  const bool changed = ImGui::InputTextWithHint("##search", "Search", &search_);
  record_widget_position("search");
  ImGui::PopStyleVar();
  ImGui::PopFont();
  if (changed) view.send(intent::SearchConversations{search_});
}

void ConversationList::draw_row(const View& view, const api::ConversationRow& row) {
  const Theme& t = theme();
  const bool shown = row.id == view.now.conversation;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x, height = px(44);
  const ImVec2 before = ImGui::GetCursorPos();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  if (shown) draw->AddRectFilled({at.x - px(8), at.y}, {at.x + width + px(8), at.y + height}, t.raised, px(6));
  ImGui::SetItemAllowOverlap();
  ImGui::PushStyleColor(ImGuiCol_HeaderHovered, with_alpha(t.raised, shown ? 0 : 0.6f));
  const bool opened = ImGui::Selectable("##open", false, ImGuiSelectableFlags_AllowItemOverlap, {width, height});
  record_widget_position(row.title);
  if (opened && !shown) view.send(intent::OpenConversation{row.id});
  ImGui::PopStyleColor();
  if (size_of(row.title, fonts().small).x > width) tooltip(row.title);
  text_at({at.x, at.y + px(6)}, shortened(row.title, width, fonts().small), t.text, fonts().small);
  const ImVec2 after = ImGui::GetCursorPos();
  if (!shown) {
    text_at({at.x, at.y + px(24)},
            shortened(row.excerpt.empty() ? when(row.changed) : row.excerpt, width, fonts().small), t.dim,
            fonts().small);
    deleting_ = deleting_ == row.id ? "" : deleting_;
    return;
  }
  ImGui::SetCursorPos({before.x - px(7), before.y + px(20)});
  if (quiet_button("rename")) {
    renaming_ = row.id;
    name_ = row.title;
    focus_name_ = true;
  }
  ImGui::SameLine(0, 0);
  const bool sure = deleting_ == row.id;
  if (quiet_button(sure ? "really delete" : "delete")) {
    if (sure) view.send(intent::DeleteConversation{row.id});
    deleting_ = sure ? "" : row.id;
  }
  ImGui::SetCursorPos(after);
}

void ConversationList::draw_name_field(const View& view, const api::ConversationRow& row) {
  ImGui::Dummy({0, px(6)});
  ImGui::SetNextItemWidth(-1);
  ImGui::PushFont(fonts().small);
  if (focus_name_) ImGui::SetKeyboardFocusHere();
  const bool done = ImGui::InputText("##name", &name_, ImGuiInputTextFlags_EnterReturnsTrue);
  const bool left = !focus_name_ && ImGui::IsItemDeactivated();
  focus_name_ = false;
  ImGui::PopFont();
  ImGui::Dummy({0, px(6)});
  if (done) view.send(intent::RenameConversation{row.id, name_});
  if (done || left) renaming_.clear();
}

} // namespace ridge::ui
