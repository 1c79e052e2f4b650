#include "ui/dialogs/link_question.h"

#include "core/strings/lower.h"
#include "core/strings/printable.h"
#include "ui/widgets/widgets.h"

#include <imgui.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstring>
#include <thread>
#include <utility>

extern char** environ;

namespace ridge::ui {
namespace {

constexpr size_t kLongestShown = 600;

std::string open_in_browser(const std::string& address) {
  std::string program = "xdg-open", argument = address;
  char* const arguments[] = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  if (const int error = ::posix_spawnp(&child, program.c_str(), nullptr, nullptr, arguments, environ))
    return std::string("xdg-open did not start: ") + std::strerror(error);
  std::thread([child] { ::waitpid(child, nullptr, 0); }).detach();
  return "";
}

} // namespace

bool may_be_opened(const std::string& address) {
  const std::string lower = core::lower(address);
  return lower.starts_with("http://") || lower.starts_with("https://") || lower.starts_with("mailto:");
}

void LinkQuestion::draw() {
  constexpr const char* kName = "##link";
  if (std::exchange(opening_, false)) {
    problem_ = may_be_opened(address_) ? "" : "Only web and mail addresses can be opened from here.";
    ImGui::OpenPopup(kName);
  }
  if (address_.empty()) return;
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  ImGui::SetNextWindowPos({screen.x / 2, screen.y / 2}, ImGuiCond_Always, {0.5f, 0.5f});
  ImGui::SetNextWindowSize({std::min(px(560), screen.x - px(48)), 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(px(24), px(20)));
  if (ImGui::BeginPopupModal(kName, nullptr,
                             ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                                 ImGuiWindowFlags_AlwaysAutoResize)) {
    title("Open this address in the browser?");
    ImGui::Dummy({0, px(2)});
    wrapped_text(core::printable(address_, kLongestShown), theme().text, fonts().mono);
    if (!problem_.empty()) wrapped_text(problem_, theme().amber, fonts().small);
    ImGui::Dummy({0, px(6)});
    bool closes = ImGui::IsKeyPressed(ImGui::GetKeyIndex(ImGuiKey_Escape), false);
    ImGui::BeginDisabled(!may_be_opened(address_));
    if (accent_button("Open", {px(100), px(34)})) {
      problem_ = open_in_browser(address_);
      closes = problem_.empty();
    }
    ImGui::EndDisabled();
    ImGui::SameLine(0, px(10));
    if (plain_button("Copy", {px(100), px(34)})) {
      ImGui::SetClipboardText(address_.c_str());
      closes = true;
    }
    ImGui::SameLine(0, px(10));
    if (plain_button("Cancel", {px(100), px(34)})) closes = true;
    if (closes) {
      address_.clear();
      ImGui::CloseCurrentPopup();
    }
    ImGui::EndPopup();
  }
  ImGui::PopStyleVar();
}

} // namespace ridge::ui
