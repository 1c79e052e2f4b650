#include "ui/panels/chat/token_tooltip.h"

#include "ui/widgets/text_layout.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace ridge::ui {

void draw_token_tooltip(const api::Snapshot& now, const api::ChatMessage& message, size_t hovered) {
  if (hovered == kNothingHovered || !message.choices || !now.vocabulary) return;
  const auto choice = std::ranges::upper_bound(*message.choices, hovered, {}, &core::TokenChoice::end);
  if (choice == message.choices->end()) return;
  const Theme& t = theme();
  const auto name = [&](int32_t token) {
    const auto id = static_cast<size_t>(token);
    return id < now.vocabulary->size() ? fmt::format("“{}”", (*now.vocabulary)[id]) : fmt::format("{}", token);
  };
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(px(12), px(10)));
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, px(3)));
  const ImVec2 mouse = ImGui::GetIO().MousePos; // below the hovered line
  ImGui::SetNextWindowPos({mouse.x, mouse.y + px(24)});
  ImGui::BeginTooltip();
  dim_text(fmt::format("Token {} of {}: most likely candidates", choice - message.choices->begin() + 1,
                       message.choices->size()));
  const auto line = [&](int32_t token, float probability) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = px(280), height = px(20), y = at.y + (height - fonts().small->FontSize) / 2;
    const bool chosen = token == choice->token;
    ImDrawList* draw = ImGui::GetWindowDrawList();
    draw->AddRectFilled(at, {at.x + std::max(px(2), width * probability), at.y + height},
                        mix(t.raised, chosen ? t.accent : t.dim, 0.4f), px(3));
    draw->PushClipRect(at, {at.x + width - px(64), at.y + height}, true);
    text_at({at.x + px(6), y}, name(token), t.text, fonts().small);
    draw->PopClipRect();
    text_at({at.x + width - px(6), y}, probability < 5e-5f ? "< 0.01 %" : fmt::format("{:.2f} %", 100 * probability),
            t.text, fonts().small, 1);
    ImGui::Dummy({width, height});
  };
  bool among = false;
  constexpr size_t kShown = 5;
  for (const core::TokenChoice::Likely& one : std::span(choice->top).first<kShown>()) {
    if (one.token < 0) continue;
    line(one.token, one.probability());
    among |= one.token == choice->token;
  }
  if (!among) {
    dim_text("sampled instead:");
    line(choice->token, choice->probability());
  }
  ImGui::EndTooltip();
  ImGui::PopStyleVar(2);
}

} // namespace ridge::ui
