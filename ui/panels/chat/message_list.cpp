#include "ui/panels/chat/message_list.h"

#include "core/units.h"
#include "ui/panels/chat/token_tooltip.h"
#include "ui/widgets/places.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::ui {
namespace {

namespace intent = api::intent;
using api::EngineState;

constexpr float kActionHeight = 23; // units; button row

bool is_busy(const api::Snapshot& now) { return now.state != EngineState::idle; }

// The number of decoded pictures, which determines the rows.
size_t shown_pictures(const api::Snapshot& now, const api::MessagePictures& pictures) {
  return static_cast<size_t>(std::ranges::count_if(pictures, [&](const auto& picture) {
    const auto known = now.picture_facts->find(picture->key);
    return known != now.picture_facts->end() && known->second.small;
  }));
}

void draw_aside(const std::string& text, float column) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const TextLayout layout = lay_out_plain(text, fonts().small, column - px(16));
  ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y}, {at.x + px(2), at.y + layout.height}, theme().border);
  draw_plain(text, layout, fonts().small, {at.x + px(14), at.y}, theme().dim);
  ImGui::Dummy({column, layout.height});
}

bool calls_follow(const std::vector<api::ChatMessage>& messages, size_t i) {
  return i + 1 < messages.size() && !messages[i].user && !messages[i + 1].call.empty();
}

// "34.4 tok/s · 110 tokens · 3.41 GB/s · SmolLM2 135M"
std::string facts_text(const api::AnswerFacts& facts, float width) {
  const std::string speed = facts.seconds > 0 ? fmt::format("{:.1f} tok/s · ", facts.tokens_per_s()) : "";
  const std::string tokens = fmt::format("{} token{}", facts.tokens, facts.tokens == 1 ? "" : "s");
  const std::string bytes = facts.bytes_per_s > 0 ? fmt::format(" · {}/s", core::human_bytes(facts.bytes_per_s)) : "";
  return fitting({fmt::format("{}{}{} · {}", speed, tokens, bytes, facts.model), speed + tokens + bytes, speed + tokens,
                  tokens, ""},
                 width, fonts().small);
}

std::string facts_tooltip(const api::AnswerFacts& facts) {
  std::string text = fmt::format("{}\n{} tokens in {:.2f} s", facts.model, facts.tokens, facts.seconds);
  if (facts.prompt_tokens > 0)
    text += fmt::format("\nprompt: {} tokens in {:.2f} s; the rest came from the cache", facts.prompt_tokens,
                        facts.prompt_seconds);
  if (facts.bytes_per_s > 0) text += fmt::format("\nmemory traffic: {}/s", core::human_bytes(facts.bytes_per_s));
  return text;
}

} // namespace

void MessageList::draw(const View& view, float left, float column, int editing) {
  const auto& messages = view.now.messages;
  if (messages.empty()) draw_welcome(view, left, column);
  if (column != column_ || view.now.conversation != conversation_) known_.clear();
  if (view.now.conversation != conversation_) follow_ = true;
  column_ = column;
  conversation_ = view.now.conversation;
  known_.resize(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    Known& known = known_[i];
    const size_t length = messages[i].text.size() + messages[i].reasoning.size() + messages[i].note.size() +
                          messages[i].forming.size() + shown_pictures(view.now, messages[i].pictures) +
                          (known.open ? 1 : 0);
    const float top = ImGui::GetCursorScreenPos().y, window = ImGui::GetWindowPos().y;
    const bool last = i + 1 == messages.size();
    if (!last && known.length == length && (top + known.pixels < window || top > window + ImGui::GetWindowHeight())) {
      ImGui::Dummy({column, known.pixels});
      continue;
    }
    ImGui::PushID(static_cast<int>(i));
    const float before = ImGui::GetCursorPosY();
    ImGui::SetCursorPosX(left);
    ImGui::BeginGroup();
    if (messages[i].user)
      draw_question(view, i, left, column);
    else if (!messages[i].call.empty())
      draw_result(view, i, column);
    else
      draw_answer(view, i, left, column);
    ImGui::EndGroup();
    if (static_cast<int>(i) == editing)
      ImGui::GetWindowDrawList()->AddRectFilled({ImGui::GetItemRectMin().x - px(8), ImGui::GetItemRectMin().y},
                                                {ImGui::GetItemRectMin().x - px(5), ImGui::GetItemRectMax().y},
                                                theme().accent, px(1));
    ImGui::Dummy({0, px(calls_follow(messages, i) ? 2 : 14)});
    ImGui::PopID();
    known.length = length;
    known.pixels = ImGui::GetCursorPosY() - before;
  }
  // Follows the answer until the user scrolls up.
  if (ImGui::GetIO().MouseWheel > 0 && ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows)) follow_ = false;
  if (ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - px(4)) follow_ = true;
  if (follow_ && !messages.empty()) ImGui::SetScrollHereY(1);
}

void MessageList::draw_over() { link_.draw(); }

void MessageList::draw_welcome(const View& view, float left, float column) {
  const bool offers = FirstModels::has_any(view);
  ImGui::SetCursorPos({left, ImGui::GetWindowHeight() * (offers ? 0.12f : 0.3f)});
  ImGui::BeginGroup();
  title("Ask something");
  ImGui::Dummy({0, px(4)});
  wrapped_text(fmt::format("{} answers, on this machine.", view.now.model->label), theme().dim, fonts().body, column);
  ImGui::Dummy({0, px(2)});
  wrapped_text("Open… on the left opens another model; you can also drop a GGUF file on the window.", theme().dim,
               fonts().small, column);
  if (!view.now.encoder.empty())
    wrapped_text("Drop or paste images or audio files to ask about them.", theme().dim, fonts().small, column);
  first_models_.draw(view, column);
  ImGui::EndGroup();
}

void MessageList::draw_question(const View& view, size_t i, float left, float column) {
  const api::ChatMessage& message = view.now.messages[i];
  pictures_.draw_sent(view, message.pictures, column);
  if (!message.text.empty()) {
    const float pad = px(14), top = px(9);
    ImFont* const font = fonts().body;
    const TextLayout layout = lay_out_plain(message.text, font, column * 0.84f - 2 * pad);
    ImGui::SetCursorPosX(left + column - layout.width - 2 * pad);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const ImVec2 size = {layout.width + 2 * pad, layout.height + 2 * top};
    ImGui::GetWindowDrawList()->AddRectFilled(at, {at.x + size.x, at.y + size.y}, theme().raised, px(12));
    draw_plain(message.text, layout, font, {at.x + pad, at.y + top}, theme().text);
    ImGui::Dummy(size);
  }
  const float versions = message.versions > 1 ? px(70) : 0;
  const float width = size_of("copyedit", fonts().small).x + px(28) + versions;
  ImGui::SetCursorPosX(left + column - width);
  draw_versions(view, i);
  if (quiet_button("copy")) ImGui::SetClipboardText(message.text.c_str());
  ImGui::SameLine(0, 0);
  ImGui::BeginDisabled(is_busy(view.now));
  if (quiet_button("edit")) edit_(view, i);
  ImGui::EndDisabled();
}

void MessageList::draw_answer(const View& view, size_t i, float left, float column) {
  const api::ChatMessage& message = view.now.messages[i];
  const bool growing = i + 1 == view.now.messages.size() && is_busy(view.now) && !message.facts &&
                       view.now.state != EngineState::measuring && view.now.state != EngineState::loading;
  if (!message.reasoning.empty()) draw_reasoning(message, known_[i], column, growing && message.text.empty());
  if (growing && message.text.empty() && message.reasoning.empty() && message.forming.empty()) {
    text(view.now.state == EngineState::reading ? view.now.activity + "…" : "…", theme().dim);
  } else if (growing && !message.forming.empty()) {
    const TextLayout layout = lay_out_plain(message.forming, fonts().body, column);
    draw_plain(message.forming, layout, fonts().body, ImGui::GetCursorScreenPos(), theme().dim);
    ImGui::Dummy({column, layout.height});
  } else if (!message.text.empty()) {
    const MarkdownView::Result mouse = known_[i].text.draw(message.text, column, growing);
    if (!mouse.clicked.empty()) link_.ask(mouse.clicked);
    if (!growing) draw_token_tooltip(view.now, message, mouse.hovered);
  }
  if (calls_follow(view.now.messages, i)) return; // after the last result
  if (growing)
    ImGui::Dummy({0, px(kActionHeight)});
  else
    draw_answer_actions(view, i, left, column);
}

// Collapsed after the answer.
void MessageList::draw_reasoning(const api::ChatMessage& message, Known& known, float column, bool growing) {
  const bool open = growing || known.open;
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() - px(7));
  if (quiet_button(open ? "reasoning ▾" : "reasoning ▸")) known.open = !known.open;
  if (open) draw_aside(message.reasoning, column);
  ImGui::Dummy({0, px(6)});
}

// The call in a line; its result expands.
void MessageList::draw_result(const View& view, size_t i, float column) {
  const api::ChatMessage& message = view.now.messages[i];
  Known& known = known_[i];
  const std::string size = core::human_bytes(static_cast<double>(message.text.size()));
  const std::string call = shortened(message.call, column - size_of(size, fonts().small).x - px(48), fonts().small);
  ImGui::SetCursorPosX(ImGui::GetCursorPosX() - px(7));
  if (quiet_button(fmt::format("{} {}###result", call, known.open ? "▾" : "▸").c_str())) known.open = !known.open;
  record_widget_position(call);
  ImGui::SameLine(0, px(8));
  dim_text(size);
  if (known.open) draw_aside(message.text, column);
}

// "‹ 2/3 ›"
void MessageList::draw_versions(const View& view, size_t i) {
  const api::ChatMessage& message = view.now.messages[i];
  if (message.versions < 2) return;
  const auto turn = [&](const char* label, int version) {
    ImGui::BeginDisabled(is_busy(view.now) || version < 0 || version >= message.versions);
    if (quiet_button(label)) view.send(intent::ShowVersion{i, version});
    ImGui::EndDisabled();
    ImGui::SameLine(0, 0);
  };
  turn("‹##version", message.version - 1);
  dim_text(fmt::format("{}/{}", message.version + 1, message.versions)); // aligned with the labels
  ImGui::SameLine(0, 0);
  turn("›##version", message.version + 1);
}

void MessageList::draw_answer_actions(const View& view, size_t i, float left, float column) {
  const api::ChatMessage& message = view.now.messages[i];
  const float top = ImGui::GetCursorPosY();
  ImGui::SetCursorPosX(left - px(7)); // aligns the label, not the frame
  draw_versions(view, i);
  if (quiet_button("copy")) ImGui::SetClipboardText(message.text.c_str());
  ImGui::SameLine(0, 0);
  ImGui::BeginDisabled(is_busy(view.now));
  if (quiet_button("edit")) edit_(view, i);
  ImGui::SameLine(0, 0);
  if (quiet_button("regenerate")) view.send(intent::Regenerate{i});
  ImGui::SameLine(0, 0);
  if (quiet_button("with… ▾")) {
    view.send(intent::ListModels{});
    ImGui::OpenPopup("models");
  }
  ImGui::EndDisabled();
  tooltip("regenerate with another model, which stays open");
  draw_models(view, i);
  ImGui::SameLine(0, px(8));
  const float x = ImGui::GetCursorPosX();
  if (!message.note.empty()) {
    ImGui::SetCursorPosY(top);
    text(message.note, theme().amber, fonts().small);
    ImGui::SameLine(0, px(8));
  }
  const float from = message.note.empty() ? x : ImGui::GetCursorPosX();
  if (message.facts) {
    const std::string facts = facts_text(*message.facts, left + column - from);
    ImGui::SetCursorPos({left + column - size_of(facts, fonts().small).x, top});
    dim_text(facts);
    tooltip(facts_tooltip(*message.facts));
  }
  ImGui::SetCursorPosY(top + px(kActionHeight));
  ImGui::Dummy({0, 0});
}

void MessageList::draw_models(const View& view, size_t i) {
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(px(8), px(8)));
  ImGui::SetNextWindowSizeConstraints({px(260), 0}, {px(520), px(360)});
  if (ImGui::BeginPopup("models")) {
    ImGui::PushFont(fonts().small);
    const auto entry = [&](const std::string& name, const std::string& path) {
      if (view.now.model && (view.now.model->built_in ? "" : view.now.model->path) == path) return;
      const bool chosen = ImGui::Selectable(shortened(name, px(480), fonts().small).c_str());
      record_widget_position(name);
      if (chosen) view.send(intent::Regenerate{i, path});
    };
    dim_text(view.now.models ? "Models on this machine" : "looking for models…");
    if (view.now.models)
      for (const api::ModelRow& row : *view.now.models)
        if (row.problem.empty()) entry(row.name, row.path);
    for (const std::string& path : view.now.recent) {
      const bool listed = view.now.models && std::ranges::count(*view.now.models, path, &api::ModelRow::path) > 0;
      if (!listed) entry(path.substr(path.rfind('/') + 1), path);
    }
    entry("the guide", "");
    ImGui::PopFont();
    ImGui::EndPopup();
  }
  ImGui::PopStyleVar();
}

} // namespace ridge::ui
