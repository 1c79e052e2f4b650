// The conversation, and beside it what decides how the model answers.
#include "ui/markdown.h"
#include "ui/panel.h"
#include "ui/widgets.h"

#include <fmt/format.h>
#include <imgui_stdlib.h>

#include <algorithm>

namespace ridge::ui {
namespace {

namespace intent = core::intent;
using core::EngineState;

constexpr int kLongest = 4096; // tokens of an answer on the slider; its end means no limit

class ChatPanel : public Panel {
 public:
  void draw(const View& view) override {
    const ImVec2 area = ImGui::GetContentRegionAvail();
    const float side = px(264), gap = px(16);
    const float width = area.x - side - gap;
    const float composer = px(86);
    keep_unsent(view.now);
    ImGui::BeginGroup();
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, 0));
    ImGui::BeginChild("messages", {width, area.y - composer - px(8)});
    draw_messages(view);
    ImGui::EndChild();
    ImGui::Dummy({0, px(8)});
    ImGui::PopStyleVar();
    draw_composer(view, {width, composer});
    ImGui::EndGroup();
    ImGui::SameLine(0, gap);
    begin_card("settings", {side, area.y}, nullptr, true);
    draw_context(view.now);
    ImGui::BeginDisabled(busy(view.now)); // what they change counts from the next answer on
    draw_system(view);
    draw_sampling(view);
    ImGui::EndDisabled();
    end_card();
  }

 private:
  static bool busy(const core::Snapshot& now) { return now.state != EngineState::idle; }

  // A message that failed comes back into the composer, rather than being lost.
  void keep_unsent(const core::Snapshot& now) {
    if (now.error_number == seen_error_) return;
    seen_error_ = now.error_number;
    if (draft_.empty() && now.messages.size() <= sent_at_) draft_ = sent_;
  }

  void send(const View& view) {
    if (draft_.find_first_not_of(" \n\t") == std::string::npos || busy(view.now)) return;
    sent_ = draft_;
    sent_at_ = editing_ < 0 ? view.now.messages.size() : static_cast<size_t>(editing_);
    editing_ < 0 ? view.send(intent::Send{draft_}) : view.send(intent::EditAndResend{sent_at_, draft_});
    draft_.clear();
    editing_ = -1;
    follow_ = true;
    focus_ = true;
  }

  void draw_messages(const View& view) {
    const auto& messages = view.now.messages;
    const float column = std::min(ImGui::GetContentRegionAvail().x - px(14), px(760));
    const float left = std::max(0.0f, (ImGui::GetContentRegionAvail().x - px(14) - column) / 2);
    if (messages.empty()) draw_welcome(view, left, column);
    if (heights_.size() != messages.size() || column != column_) heights_.assign(messages.size(), {});
    column_ = column;
    for (size_t i = 0; i < messages.size(); ++i) {
      Height& known = heights_[i];
      const size_t length = messages[i].text.size() + messages[i].reasoning.size() + messages[i].note.size();
      const float top = ImGui::GetCursorScreenPos().y, window = ImGui::GetWindowPos().y;
      const bool last = i + 1 == messages.size();
      if (!last && known.length == length && // out of sight
          (top + known.pixels < window || top > window + ImGui::GetWindowHeight())) {
        ImGui::Dummy({column, known.pixels});
        continue;
      }
      ImGui::PushID(static_cast<int>(i));
      const float before = ImGui::GetCursorPosY();
      ImGui::SetCursorPosX(left);
      ImGui::BeginGroup();
      messages[i].user ? draw_question(view, i, column) : draw_answer(view, i, column, last);
      ImGui::EndGroup();
      ImGui::Dummy({0, px(10)});
      ImGui::PopID();
      known = {length, ImGui::GetCursorPosY() - before};
    }
    // The view follows the answer until the user scrolls up.
    if (ImGui::GetIO().MouseWheel > 0 && ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows)) follow_ = false;
    if (ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - px(4)) follow_ = true;
    if (follow_) ImGui::SetScrollHereY(1);
  }

  void draw_welcome(const View& view, float left, float column) {
    ImGui::SetCursorPos({left, ImGui::GetWindowHeight() * 0.3f});
    ImGui::BeginGroup();
    title("Ask something");
    ImGui::Dummy({0, px(4)});
    text(fmt::format("{} answers, on this machine.", view.now.model->label), theme().dim);
    dim_text("Drop another GGUF file on the window to open it.");
    ImGui::EndGroup();
    (void)column;
  }

  void draw_question(const View& view, size_t i, float column) {
    const std::string& content = view.now.messages[i].text;
    ImFont* font = fonts().body;
    const float pad = px(14), widest = column * 0.8f;
    const ImVec2 size = font->CalcTextSizeA(font->FontSize, INFINITY, widest - 2 * pad, content.c_str());
    const float x = ImGui::GetCursorPosX() + column - size.x - 2 * pad;
    ImGui::SetCursorPosX(x);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImDrawList* draw = ImGui::GetWindowDrawList();
    draw->AddRectFilled(at, {at.x + size.x + 2 * pad, at.y + size.y + px(20)}, theme().raised, px(12));
    draw->AddText(font, font->FontSize, {at.x + pad, at.y + px(10)}, theme().text, content.c_str(), nullptr,
                  widest - 2 * pad);
    ImGui::Dummy({size.x + 2 * pad, size.y + px(20)});
    ImGui::SetCursorPosX(x + size.x + 2 * pad - px(84));
    if (quiet_button("copy")) ImGui::SetClipboardText(content.c_str());
    ImGui::SameLine(0, 0);
    ImGui::BeginDisabled(busy(view.now));
    if (quiet_button("edit")) {
      draft_ = content;
      editing_ = static_cast<int>(i);
      focus_ = true;
    }
    ImGui::EndDisabled();
  }

  void draw_answer(const View& view, size_t i, float column, bool last) {
    const core::ChatMessage& message = view.now.messages[i];
    const bool growing = last && busy(view.now);
    if (!message.reasoning.empty()) {
      ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + column);
      text(message.reasoning, theme().dim, fonts().small);
      ImGui::PopTextWrapPos();
      ImGui::Dummy({0, px(6)});
    }
    if (growing && message.text.empty() && message.reasoning.empty())
      text(view.now.state == EngineState::reading ? "reading…" : "…", theme().dim);
    else
      markdown(growing ? message.text + " ▍" : message.text, column);
    if (growing) {
      ImGui::Dummy({0, px(23)}); // where the buttons will be
      return;
    }
    ImGui::SetCursorPosX(ImGui::GetCursorPosX() - px(7)); // the label, not the frame, lines up with the text
    if (quiet_button("copy")) ImGui::SetClipboardText(message.text.c_str());
    if (last) {
      ImGui::SameLine(0, 0);
      if (quiet_button("answer again")) view.send(intent::Regenerate{});
    }
    if (!message.note.empty()) {
      ImGui::SameLine(0, px(8));
      ImGui::SetCursorPosY(ImGui::GetCursorPosY() + px(3));
      text(message.note, theme().amber, fonts().small);
    }
  }

  void draw_composer(const View& view, ImVec2 size) {
    const float button = px(84);
    begin_card("composer", size);
    ImGui::SetCursorPos({px(8), px(8)});
    ImGui::PushStyleColor(ImGuiCol_FrameBg, with_alpha(theme().raised, 0));
    if (focus_ || ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
    focus_ = false;
    const bool entered =
        ImGui::InputTextMultiline("##draft", &draft_, {size.x - button - px(36), size.y - px(16)},
                                  ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_CtrlEnterForNewLine);
    ImGui::PopStyleColor();
    if (draft_.empty()) {
      const ImVec2 at = ImGui::GetItemRectMin();
      text_at({at.x + px(10), at.y + px(6)}, "Message", theme().dim, fonts().body);
      text_at({at.x + px(10), at.y + px(50)}, "Enter sends · Ctrl Enter starts a line", theme().dim, fonts().small);
    }
    if (entered) send(view);
    ImGui::SetCursorPos({size.x - button - px(16), (size.y - px(36)) / 2});
    const bool answering = view.now.state == EngineState::reading || view.now.state == EngineState::writing;
    if (answering) {
      if (ImGui::Button("Stop", {button, px(36)})) view.send(intent::Stop{});
    } else {
      ImGui::BeginDisabled(busy(view.now));
      if (accent_button(editing_ < 0 ? "Send" : "Resend", {button, px(36)})) send(view);
      ImGui::EndDisabled();
    }
    if (editing_ >= 0) {
      ImGui::SetCursorPos({size.x - button - px(16), size.y - px(23)});
      if (quiet_button("cancel edit")) {
        editing_ = -1;
        draft_.clear();
      }
    }
    end_card();
  }

  static void draw_context(const core::Snapshot& now) {
    const float share = static_cast<float>(now.kv.tokens) / static_cast<float>(std::max<int64_t>(1, now.kv.context));
    dim_text("Context");
    bar(share, {0, px(6)}, share > 0.9f ? theme().red : share > 0.75f ? theme().amber : theme().accent);
    text(fmt::format("{} of {} tokens", now.kv.tokens, now.kv.context), theme().text, fonts().small);
    ImGui::Dummy({0, px(2)});
    dim_text("Speed");
    text(now.speed.tokens_per_s > 0
             ? fmt::format("{:.1f} tok/s · {:.2f} GB/s", now.speed.tokens_per_s, now.speed.bytes_per_s / 1e9)
             : "nothing measured yet",
         theme().text, fonts().small);
    ImGui::Dummy({0, px(2)});
  }

  void draw_system(const View& view) {
    dim_text("System prompt");
    if (!editing_system_) system_ = view.now.system_prompt;
    ImGui::PushFont(fonts().small);
    ImGui::InputTextMultiline("##system", &system_, {-1, px(72)});
    ImGui::PopFont();
    editing_system_ = ImGui::IsItemActive();
    if (ImGui::IsItemDeactivatedAfterEdit()) {
      view.send(intent::SetSystemPrompt{system_});
      editing_system_ = true; // until the engine has taken it over
    }
    ImGui::Dummy({0, px(2)});
  }

  void draw_sampling(const View& view) {
    dim_text("Sampling");
    core::SamplerParams params = view.now.sampling;
    auto max_tokens = static_cast<int>(view.now.max_tokens);
    bool changed = false;
    // Label, slider, value: the grab must not cover the number.
    const auto row = [](const char* label, const char* help, const std::string& value) {
      ImGui::AlignTextToFramePadding();
      text(label, theme().text, fonts().small);
      tooltip(help);
      ImGui::SameLine(px(104));
      const float width = ImGui::GetContentRegionAvail().x;
      const ImVec2 at = ImGui::GetCursorScreenPos();
      text_at({at.x + width, at.y + px(4)}, value, theme().text, fonts().small, 1);
      ImGui::SetNextItemWidth(width - px(58));
    };
    const auto number = [](float x, float off, const char* word) { return x == off ? word : fmt::format("{:.2f}", x); };
    ImGui::PushFont(fonts().small);
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(px(6), px(4)));
    row("Temperature", "0: always the most probable token", number(params.temp, 0, "greedy"));
    changed |= ImGui::SliderFloat("##temp", &params.temp, 0, 2, "");
    row("Top-k", "draw from the k most probable tokens", params.top_k == 0 ? "all" : std::to_string(params.top_k));
    changed |= ImGui::SliderInt("##topk", &params.top_k, 0, 200, "");
    row("Top-p", "draw from the most probable tokens of this mass", number(params.top_p, 1, "all"));
    changed |= ImGui::SliderFloat("##topp", &params.top_p, 0.01f, 1, "");
    row("Min-p", "tokens at least this fraction as probable as the best", number(params.min_p, 0, "all"));
    changed |= ImGui::SliderFloat("##minp", &params.min_p, 0, 1, "");
    row("Repeat", "divides the logits of recent tokens", number(params.repeat_penalty, 1, "off"));
    changed |= ImGui::SliderFloat("##repeat", &params.repeat_penalty, 1, 2, "");
    row("Longest", "tokens of an answer", max_tokens < 0 ? "no limit" : std::to_string(max_tokens));
    int length = max_tokens < 0 ? kLongest : max_tokens;
    if (ImGui::SliderInt("##max", &length, 1, kLongest, "", ImGuiSliderFlags_Logarithmic)) {
      max_tokens = length >= kLongest ? -1 : length;
      changed = true;
    }
    ImGui::PopStyleVar();
    ImGui::PopFont();
    if (changed) view.send(intent::SetSampling{params, max_tokens});
  }

  struct Height {
    size_t length = 0; // of the text that had this height
    float pixels = 0;
  };
  std::vector<Height> heights_;
  float column_ = 0;
  std::string draft_, sent_, system_;
  size_t sent_at_ = 0;
  int editing_ = -1; // number of the message being edited
  uint64_t seen_error_ = 0;
  bool follow_ = true, focus_ = false, editing_system_ = false;
};

} // namespace

std::unique_ptr<Panel> make_chat_panel() { return std::make_unique<ChatPanel>(); }

} // namespace ridge::ui
