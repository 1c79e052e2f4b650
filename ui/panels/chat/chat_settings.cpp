#include "ui/panels/chat/chat_settings.h"

#include "core/units.h"
#include "ui/widgets/places.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <climits>
#include <utility>

namespace ridge::ui {
namespace {

namespace intent = api::intent;

constexpr int kLongest = 4096; // the end: no limit

// Label and value beside a slider, whose handle must not cover the number.
void begin_row(const char* label, const char* help, const std::string& value) {
  ImGui::AlignTextToFramePadding();
  text(label, theme().text, fonts().small);
  tooltip(help);
  ImGui::SameLine(px(104));
  const float width = ImGui::GetContentRegionAvail().x;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  text_at({at.x + width, at.y + px(4)}, value, theme().text, fonts().small, 1);
  ImGui::SetNextItemWidth(width - px(58));
}

void draw_context(const View& view) {
  const api::Snapshot& now = view.now;
  const float share = static_cast<float>(now.kv.tokens) / static_cast<float>(std::max<int64_t>(1, now.kv.context));
  dim_text("Context");
  bar(share, {0, px(6)}, share > 0.9f ? theme().red : share > 0.75f ? theme().amber : theme().accent);
  text(fmt::format("{} of {} tokens", now.kv.tokens, now.kv.context), theme().text, fonts().small);
  const char* const label = "compact";
  ImGui::SameLine(ImGui::GetWindowContentRegionMax().x - size_of(label, fonts().small).x - px(7));
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() - px(3));
  ImGui::BeginDisabled(now.messages.empty() || now.state != api::EngineState::idle);
  if (quiet_button(label)) view.send(intent::Compact{});
  ImGui::EndDisabled();
  tooltip("Replaces the conversation by a summary that the model writes. The messages stay as the other version of the "
          "first one: ‹ shows them.");
  ImGui::Dummy({0, px(2)});
  dim_text("Speed");
  text(now.speed.tokens_per_s > 0
           ? fmt::format("{:.1f} tok/s · {}/s", now.speed.tokens_per_s, core::human_bytes(now.speed.bytes_per_s))
           : "not measured yet",
       theme().text, fonts().small);
  ImGui::Dummy({0, px(2)});
}

void draw_encoder(const api::Snapshot& now) {
  dim_text("Images and audio");
  if (now.encoder.empty()) {
    dim_text("not supported by this model");
    tooltip(
        "No mmproj*.gguf next to the model. If the model has an image or audio encoder, drop its file on the window.");
  } else {
    text(now.encoder.substr(now.encoder.rfind('/') + 1), theme().text, fonts().small);
    tooltip(now.encoder +
            (now.encoder_open ? "" : "\nIt is loaded with the first image or audio file; the model is then reloaded."));
  }
  ImGui::Dummy({0, px(2)});
}

void draw_tools(const api::Snapshot& now) {
  if (!now.tools) return;
  dim_text("Tools");
  std::string list;
  size_t allowed = 0;
  for (const api::ToolRow& tool : *now.tools) {
    allowed += tool.allowed ? 1 : 0;
    list += fmt::format("{}{} ({}){}", list.empty() ? "" : "\n", tool.name, tool.server,
                        tool.allowed ? ", without asking" : "");
  }
  text(now.tools->empty() ? "no MCP server has tools"
       : allowed > 0      ? fmt::format("{}, {} without asking", now.tools->size(), allowed)
                          : fmt::format("{}, each call needs your consent", now.tools->size()),
       theme().text, fonts().small);
  tooltip(list);
  ImGui::Dummy({0, px(2)});
}

void draw_sampling(const View& view) {
  dim_text("Sampling");
  core::SamplerParams params = view.now.sampling;
  auto max_tokens = static_cast<int>(view.now.max_tokens);
  bool changed = false;
  const auto number = [](float x, float off, const char* word) { return x == off ? word : fmt::format("{:.2f}", x); };
  ImGui::PushFont(fonts().small);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(px(6), px(4)));
  begin_row("Temperature", "0: always the most likely token", number(params.temp, 0, "greedy"));
  changed |= ImGui::SliderFloat("##temp", &params.temp, 0, 2, "");
  begin_row("Top-k", "sample from the k most likely tokens", params.top_k == 0 ? "all" : std::to_string(params.top_k));
  changed |= ImGui::SliderInt("##topk", &params.top_k, 0, 200, "");
  begin_row("Top-p", "sample from the most likely tokens up to this total probability", number(params.top_p, 1, "all"));
  changed |= ImGui::SliderFloat("##topp", &params.top_p, 0.01f, 1, "");
  begin_row("Min-p", "minimum probability relative to the most likely token", number(params.min_p, 0, "all"));
  changed |= ImGui::SliderFloat("##minp", &params.min_p, 0, 1, "");
  begin_row("Repeat", "divides the logits of recent tokens", number(params.repeat_penalty, 1, "off"));
  changed |= ImGui::SliderFloat("##repeat", &params.repeat_penalty, 1, 2, "");
  begin_row("Seed", "the same seed gives the same answer to the same message", params.seed < 0 ? "random" : "");
  if (bool fixed = params.seed >= 0; ImGui::Checkbox("##fixed", &fixed)) {
    params.seed = fixed ? 1 : -1;
    changed = true;
  }
  if (params.seed >= 0) {
    ImGui::SameLine(0, px(6));
    ImGui::SetNextItemWidth(-1);
    auto seed = static_cast<int>(std::min<int64_t>(params.seed, INT_MAX));
    if (ImGui::InputInt("##seed", &seed, 0)) {
      params.seed = std::max(0, seed);
      changed = true;
    }
  }
  begin_row("Max length", "maximum tokens in an answer", max_tokens < 0 ? "no limit" : std::to_string(max_tokens));
  int length = max_tokens < 0 ? kLongest : max_tokens;
  if (ImGui::SliderInt("##max", &length, 1, kLongest, "", ImGuiSliderFlags_Logarithmic)) {
    max_tokens = length >= kLongest ? -1 : length;
    changed = true;
  }
  ImGui::PopStyleVar();
  ImGui::PopFont();
  if (changed) view.send(intent::SetSampling{params, max_tokens});
}

} // namespace

void ChatSettings::draw(const View& view, ImVec2 size) {
  begin_card("settings", size, nullptr, true);
  draw_context(view);
  draw_encoder(view.now);
  draw_tools(view.now);
  ImGui::BeginDisabled(view.now.state != api::EngineState::idle);
  draw_adapters(view);
  draw_presets(view);
  draw_system(view);
  draw_sampling(view);
  ImGui::Dummy({0, px(2)});
  bool keep = view.now.keep_choices;
  ImGui::PushFont(fonts().small);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(px(3), px(3)));
  if (ImGui::Checkbox("Token probabilities", &keep)) view.send(intent::KeepChoices{keep});
  ImGui::PopStyleVar();
  ImGui::PopFont();
  tooltip("Point at a word of an answer to see its alternatives. On a GPU, tokens are then sampled on the CPU, which "
          "is slower.");
  ImGui::EndDisabled();
  end_card();
}

void ChatSettings::draw_adapters(const View& view) {
  const std::vector<api::AdapterRow>& adapters = view.now.adapters;
  const auto button_at = [](const char* label) {
    ImGui::SameLine(ImGui::GetWindowContentRegionMax().x - size_of(label, fonts().small).x - px(7));
    ImGui::SetCursorPosY(ImGui::GetCursorPosY() - px(3));
    return quiet_button(label);
  };
  dim_text("LoRA adapters");
  tooltip(
      "Small files that change the model. They stay with the model; scales and switches belong to the conversation.");
  if (button_at("add…"))
    dialog_.ask(FileDialog::For::any, "Add a LoRA adapter (GGUF)", "",
                [this](const std::string& path) { picked_ = path; });
  tooltip("reopens the model with a GGUF file of an adapter; you can also drop it on the window");
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(px(6), px(4)));
  for (size_t i = 0; i < adapters.size(); ++i) {
    api::AdapterRow row = adapters[i];
    ImGui::PushID(static_cast<int>(i));
    ImGui::PushFont(fonts().small);
    bool changed = ImGui::Checkbox("##on", &row.on);
    record_widget_position("adapter " + row.name);
    ImGui::SameLine(0, px(8));
    ImGui::AlignTextToFramePadding();
    text(shortened(row.name, ImGui::GetContentRegionAvail().x - px(30), fonts().small),
         row.on ? theme().text : theme().dim, fonts().small);
    tooltip(row.path);
    if (button_at("×")) view.send(intent::RemoveAdapter{i});
    tooltip("remove; reopens the model without it");
    ImGui::BeginDisabled(!row.on);
    begin_row("Scale", "strength of the adapter in this conversation; Ctrl click takes any number",
              fmt::format("{:.2f}", row.scale));
    changed |= ImGui::SliderFloat("##scale", &row.scale, 0, 2, "");
    record_widget_position("scale of " + row.name);
    ImGui::EndDisabled();
    ImGui::PopFont();
    ImGui::PopID();
    if (changed) view.send(intent::ScaleAdapter{i, row.scale, row.on});
  }
  ImGui::PopStyleVar();
  ImGui::Dummy({0, px(2)});
}

void ChatSettings::draw_over(const View& view) {
  dialog_.draw(view.now);
  if (!picked_.empty()) view.send(intent::AddAdapter{std::exchange(picked_, {})});
}

void ChatSettings::draw_presets(const View& view) {
  const std::vector<api::Preset>& presets = view.now.presets;
  dim_text("Preset");
  ImGui::PushFont(fonts().small);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(px(8), px(5)));
  const float arrow = px(28);
  ImGui::SetNextItemWidth(-arrow - px(4));
  ImGui::InputTextWithHint("##preset", "a name for this preset", &preset_);
  record_widget_position("preset");
  ImGui::SameLine(0, px(4));
  ImGui::BeginDisabled(presets.empty());
  ImGui::SetNextItemWidth(arrow);
  if (ImGui::BeginCombo("##presets", "", ImGuiComboFlags_NoPreview | ImGuiComboFlags_PopupAlignLeft)) {
    for (const api::Preset& preset : presets) {
      const bool chosen = ImGui::Selectable(preset.name.c_str(), preset.name == preset_);
      record_widget_position(preset.name);
      if (!chosen) continue;
      preset_ = preset.name;
      view.send(intent::UsePreset{preset.name});
    }
    ImGui::EndCombo();
  }
  record_widget_position("presets");
  ImGui::EndDisabled();
  ImGui::PopStyleVar();
  ImGui::PopFont();
  tooltip("saved system prompts and sampling settings");
  if (preset_.empty()) return;
  const bool known = std::ranges::count(presets, preset_, &api::Preset::name) > 0;
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() - px(7));
  if (quiet_button(known ? "overwrite preset" : "save preset")) view.send(intent::SavePreset{preset_});
  if (known) {
    ImGui::SameLine(0, 0);
    if (quiet_button("delete preset")) {
      view.send(intent::DeletePreset{preset_});
      preset_.clear();
    }
  }
}

void ChatSettings::draw_system(const View& view) {
  dim_text("System prompt");
  if (!system_.active() && shown_system_ != view.now.system_prompt) {
    shown_system_ = view.now.system_prompt;
    system_.set_text(shown_system_);
  }
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x, height = px(84);
  ImGui::GetWindowDrawList()->AddRectFilled(at, {at.x + width, at.y + height}, theme().raised, px(6));
  const ImVec2 before = ImGui::GetCursorPos();
  ImGui::SetCursorPos({before.x + px(8), before.y + px(6)});
  system_.draw("system", {width - px(12), height - px(12)}, fonts().small, TextEditor::Enter::breaks_line, "none");
  if (system_.lost_focus() && system_.text() != view.now.system_prompt) {
    shown_system_ = view.now.system_prompt;
    view.send(intent::SetSystemPrompt{system_.text()});
  }
  ImGui::SetCursorPos({before.x, before.y + height});
  ImGui::Dummy({0, px(2)});
}

} // namespace ridge::ui
