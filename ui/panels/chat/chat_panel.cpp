// The conversation, between the list of all of them and what decides how the model answers.
#include "ui/markdown/markdown_view.h"
#include "ui/panels/chat/chat_pictures.h"
#include "ui/panels/chat/chat_settings.h"
#include "ui/panels/chat/conversation_list.h"
#include "ui/panels/panel.h"
#include "ui/widgets/glyphs.h"
#include "ui/widgets/link_question.h"
#include "ui/widgets/picture_paths.h"
#include "ui/widgets/places.h"
#include "ui/widgets/text_editor.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

namespace ridge::ui {
namespace {

namespace intent = core::intent;
using core::EngineState;

// How many of them are decoded: rows of pictures are as wide as these.
size_t shown_pictures(const core::Snapshot& now, const core::MessagePictures& pictures) {
  return std::ranges::count_if(pictures, [&](const auto& picture) {
    const auto known = now.picture_facts->find(picture->key);
    return known != now.picture_facts->end() && known->second.small;
  });
}

class ChatPanel : public Panel {
 public:
  void draw(const View& view) override {
    const ImVec2 area = ImGui::GetContentRegionAvail();
    const bool narrow = area.x < px(1000);
    const float gap = px(12), list = narrow ? px(176) : px(200), side = narrow ? px(240) : px(264);
    float width = area.x;
    keep_unsent(view.now);
    if (view.layout.conversations) {
      width -= list + gap;
      list_.draw(view, {list, area.y});
      ImGui::SameLine(0, gap);
    }
    if (view.layout.settings) width -= side + gap;
    draw_conversation(view, {width, area.y});
    if (view.layout.settings) {
      ImGui::SameLine(0, gap);
      settings_.draw(view, {side, area.y});
    }
    pictures_.draw_over(view);
    link_.draw();
  }
  bool takes_escape() const override { return pictures_.is_over() || link_.is_open(); }

 private:
  void draw_conversation(const View& view, ImVec2 size) {
    const float header = px(30), composer = px(98) + ChatPictures::unsent_height(view.now);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, 0));
    ImGui::BeginChild("conversation", size, false, ImGuiWindowFlags_NoScrollbar);
    if (quiet_button(view.layout.conversations ? "‹ list" : "list ›"))
      view.layout.conversations = !view.layout.conversations;
    const char* const settings = view.layout.settings ? "settings ›" : "‹ settings";
    ImGui::SetCursorPos({size.x - size_of(settings, fonts().small).x - px(14), 0});
    if (quiet_button(settings)) view.layout.settings = !view.layout.settings;
    ImGui::SetCursorPos({0, header});
    ImGui::BeginChild("messages", {size.x, size.y - header - composer - px(8)});
    draw_messages(view);
    ImGui::EndChild();
    ImGui::Dummy({0, px(8)});
    draw_composer(view, {size.x, composer});
    ImGui::EndChild();
    ImGui::PopStyleVar();
  }

  static bool busy(const core::Snapshot& now) { return now.state != EngineState::idle; }

  // A message that failed comes back into the composer, rather than being lost.
  void keep_unsent(const core::Snapshot& now) {
    const bool arrived = sent_at_ < now.messages.size() && now.messages[sent_at_].text == sent_;
    if (now.error_number == seen_error_) {
      if (arrived && !busy(now)) sent_.clear(); // it has its answer
      return;
    }
    seen_error_ = now.error_number;
    if (draft_.empty() && !arrived) draft_.set_text(sent_);
  }

  void send(const View& view) {
    const std::string text = draft_.text();
    const bool blank = text.find_first_not_of(" \n\t") == std::string::npos;
    if ((blank && view.now.pictures.empty()) || busy(view.now)) return;
    sent_ = text;
    sent_at_ = editing_ < 0 ? view.now.messages.size() : static_cast<size_t>(editing_);
    editing_ < 0 ? view.send(intent::Send{text}) : view.send(intent::EditAndResend{sent_at_, text});
    draft_.set_text("");
    editing_ = -1;
    follow_ = true;
    draft_.focus();
  }

  void draw_messages(const View& view) {
    const auto& messages = view.now.messages;
    const float column = std::min(ImGui::GetContentRegionAvail().x - px(14), px(760));
    const float left = std::max(0.0f, (ImGui::GetContentRegionAvail().x - px(14) - column) / 2);
    if (messages.empty()) draw_welcome(view, left, column);
    if (column != column_ || view.now.conversation != conversation_) heights_.clear();
    if (view.now.conversation != conversation_) {
      follow_ = true;
      editing_ = -1;
    }
    column_ = column;
    conversation_ = view.now.conversation;
    heights_.resize(messages.size());
    for (size_t i = 0; i < messages.size(); ++i) {
      Height& known = heights_[i];
      const size_t length = messages[i].text.size() + messages[i].reasoning.size() + messages[i].note.size() +
                            shown_pictures(view.now, messages[i].pictures);
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
      known.length = length;
      known.pixels = ImGui::GetCursorPosY() - before;
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
    if (!view.now.encoder.empty()) dim_text("Drop pictures on it, or paste their paths, to ask about them.");
    ImGui::EndGroup();
    (void)column;
  }

  void draw_question(const View& view, size_t i, float column) {
    const std::string& content = view.now.messages[i].text;
    const float left = ImGui::GetCursorPosX();
    pictures_.draw_sent(view, view.now.messages[i].pictures, column);
    if (!content.empty()) draw_bubble(content, column);
    ImGui::SetCursorPosX(left + column - px(84));
    if (quiet_button("copy")) ImGui::SetClipboardText(content.c_str());
    ImGui::SameLine(0, 0);
    ImGui::BeginDisabled(busy(view.now));
    if (quiet_button("edit")) {
      draft_.set_text(content);
      editing_ = static_cast<int>(i);
      draft_.focus();
      if (!view.now.messages[i].pictures.empty() || !view.now.pictures.empty()) view.send(intent::EditPictures{i});
    }
    ImGui::EndDisabled();
  }

  static void draw_bubble(const std::string& content, float column) {
    ImFont* font = fonts().body;
    const std::string shown(showable(content, font));
    const float pad = px(14), widest = column * 0.8f;
    const ImVec2 size = font->CalcTextSizeA(font->FontSize, INFINITY, widest - 2 * pad, shown.c_str());
    const float x = ImGui::GetCursorPosX() + column - size.x - 2 * pad;
    ImGui::SetCursorPosX(x);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImDrawList* draw = ImGui::GetWindowDrawList();
    draw->AddRectFilled(at, {at.x + size.x + 2 * pad, at.y + size.y + px(20)}, theme().raised, px(12));
    draw->AddText(font, font->FontSize, {at.x + pad, at.y + px(10)}, theme().text, shown.c_str(), nullptr,
                  widest - 2 * pad);
    ImGui::Dummy({size.x + 2 * pad, size.y + px(20)});
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
      text(view.now.state == EngineState::reading ? view.now.activity + "…" : "…", theme().dim);
    else
      draw_markdown(view, message, i, column, growing);
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

  void draw_markdown(const View& view, const core::ChatMessage& message, size_t i, float column, bool growing) {
    const MarkdownView::Result mouse = heights_[i].text.draw(message.text, column, growing);
    if (!mouse.clicked.empty()) link_.ask(mouse.clicked);
    if (!growing) show_choice(view.now, message, mouse.hovered);
  }

  // What else the model thought of where the mouse is.
  static void show_choice(const core::Snapshot& now, const core::ChatMessage& message, size_t hovered) {
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
    const ImVec2 mouse = ImGui::GetIO().MousePos; // the line that is pointed at stays legible
    ImGui::SetNextWindowPos({mouse.x, mouse.y + px(24)});
    ImGui::BeginTooltip();
    dim_text(fmt::format("Token {} of {}: the model's likeliest", choice - message.choices->begin() + 1,
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
      dim_text("drawn instead:");
      line(choice->token, choice->probability());
    }
    ImGui::EndTooltip();
    ImGui::PopStyleVar(2);
  }

  // Below the text: keys, the button for pictures, what they cost.
  void draw_hints(const View& view, ImVec2 size) {
    const ImVec2 corner = ImGui::GetWindowPos();
    const float cost = ChatPictures::draw_cost(view, {corner.x + size.x - px(16), corner.y + size.y - px(22)});
    const float room = size.x - cost - px(150);
    const std::string keys =
        fitting({"Enter sends · Shift Enter starts a line", "Enter sends", ""}, room, fonts().small);
    ImGui::SetCursorPos({px(16), size.y - px(22)});
    dim_text(keys);
    ImGui::SetCursorPos({px(keys.empty() ? 9 : 25) + size_of(keys, fonts().small).x, size.y - px(25)});
    pictures_.draw_button();
  }

  void draw_composer(const View& view, ImVec2 size) {
    const float button = px(84);
    begin_card("composer", size);
    ImGui::SetCursorPos({px(16), px(12)});
    const float pictures = ChatPictures::unsent_height(view.now), top = px(16) + pictures;
    if (pictures > 0) pictures_.draw_unsent(view, size.x - px(32));
    ImGui::SetCursorPos({px(16), px(12) + pictures});
    if (ImGui::IsWindowAppearing()) draft_.focus();
    draft_.set_paste([&](std::string_view text) {
      const std::vector<std::string> paths = picture_paths(text);
      for (const std::string& path : paths) view.send(intent::AddPicture{path});
      return !paths.empty();
    });
    const bool entered = draft_.draw("draft", {size.x - button - px(48), size.y - px(38) - pictures}, fonts().body,
                                     TextEditor::Enter::sends, "Message");
    note_place("message box", ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
    draft_.set_paste({});
    if (entered) send(view);
    draw_hints(view, size);
    ImGui::SetCursorPos({size.x - button - px(16), top});
    const bool answering = view.now.state == EngineState::reading || view.now.state == EngineState::writing;
    if (answering) {
      if (ImGui::Button("Stop", {button, px(36)})) view.send(intent::Stop{});
    } else {
      ImGui::BeginDisabled(busy(view.now));
      if (accent_button(editing_ < 0 ? "Send" : "Resend", {button, px(36)})) send(view);
      ImGui::EndDisabled();
    }
    if (editing_ >= 0) {
      ImGui::SetCursorPos({size.x - button - px(16), top + px(42)});
      if (quiet_button("cancel edit")) {
        editing_ = -1;
        draft_.set_text("");
        if (pictures > 0) view.send(intent::RemovePicture{});
      }
    }
    end_card();
  }

  struct Height {
    size_t length = 0; // of the text that had this height
    float pixels = 0;
    MarkdownView text;
  };
  std::vector<Height> heights_;
  float column_ = 0;
  TextEditor draft_;
  std::string sent_, conversation_;
  size_t sent_at_ = 0;
  int editing_ = -1; // number of the message being edited
  uint64_t seen_error_ = 0;
  bool follow_ = true;
  ConversationList list_;
  ChatSettings settings_;
  ChatPictures pictures_;
  LinkQuestion link_;
};

} // namespace

std::unique_ptr<Panel> make_chat_panel() { return std::make_unique<ChatPanel>(); }

} // namespace ridge::ui
