#include "ui/dialogs/tool_question.h"

#include "core/strings/printable.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <optional>

namespace ridge::ui {

using api::intent::ToolPermission;

constexpr const char* kToolQuestion = "##tool";
constexpr size_t kLongestArguments = 1500;

void ToolQuestionDialog::draw(const api::Snapshot& now, const std::function<void(api::Intent)>& send) {
  if (now.tool_question && !ImGui::IsPopupOpen(kToolQuestion)) ImGui::OpenPopup(kToolQuestion);
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({screen.x / 2, screen.y / 2}, ImGuiCond_Always, {0.5f, 0.5f});
  ImGui::SetNextWindowSize({std::min(px(560), screen.x - px(48)), 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(px(24), px(20)));
  if (ImGui::BeginPopupModal(kToolQuestion, nullptr,
                             ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                 ImGuiWindowFlags_AlwaysAutoResize)) {
    if (now.tool_question) {
      const api::ToolQuestion& asked = *now.tool_question;
      title(fmt::format("Allow the model to call {}?", asked.tool));
      dim_text(fmt::format("a tool of the MCP server {}, with", asked.server));
      ImGui::Dummy({0, px(2)});
      wrapped_text(core::printable(asked.arguments, kLongestArguments), theme().text, fonts().mono);
      ImGui::Dummy({0, px(6)});
      std::optional<ToolPermission> decision;
      if (accent_button("Allow", {px(100), px(34)})) decision = ToolPermission::yes;
      ImGui::SameLine(0, px(10));
      if (plain_button("Always allow", {px(120), px(34)})) decision = ToolPermission::always;
      tooltip("allow this tool without asking until the window is closed");
      ImGui::SameLine(0, px(10));
      const bool escape = ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_Escape), false);
      if (plain_button("Decline", {px(100), px(34)}) || escape) decision = ToolPermission::no;
      if (decision) {
        send(api::intent::AnswerTool{asked.number, *decision});
        ImGui::CloseCurrentPopup();
      }
    } else {
      ImGui::CloseCurrentPopup();
    }
    ImGui::EndPopup();
  }
  ImGui::PopStyleVar();
}

} // namespace ridge::ui
