#include "ui/dialogs/file_dialog.h"
#include "ui/panels/chat/chat_pictures.h"
#include "ui/panels/chat/chat_settings.h"
#include "ui/panels/chat/conversation_list.h"
#include "ui/panels/chat/message_list.h"
#include "ui/panels/panel.h"
#include "ui/widgets/clipboard.h"
#include "ui/widgets/picture_paths.h"
#include "ui/widgets/places.h"
#include "ui/widgets/text_editor.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ridge::ui {
namespace {

namespace intent = api::intent;
using api::EngineState;

constexpr float kReadingWidth = 760; // units; about 90 characters
constexpr float kMinBox = 98;
constexpr double kNearlyFull = 0.8; // share of the context from which on compaction is offered

class ChatPanel : public Panel {
 public:
  ChatPanel() : messages_(pictures_, [this](const View& view, size_t message) { edit(view, message); }) {}

  void draw(const View& view) override {
    const ImVec2 area = ImGui::GetContentRegionAvail();
    const bool narrow = area.x < px(1000);
    const float gap = px(12), list = narrow ? px(176) : px(216), side = narrow ? px(240) : px(264);
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
    settings_.draw_over(view);
    messages_.draw_over();
    export_.draw(view.now);
    if (!export_path_.empty()) view.send(intent::ExportConversation{std::exchange(export_path_, {})});
  }
  bool takes_escape() const override {
    return pictures_.is_over() || settings_.is_over() || messages_.is_over() || export_.is_open();
  }

 private:
  void draw_conversation(const View& view, ImVec2 size) {
    const float header = px(30);
    const float column = std::min(size.x - px(14), px(kReadingWidth));
    const float left = std::max(0.0f, (size.x - px(14) - column) / 2);
    const float most = std::max(px(kMinBox), size.y * 0.45f);
    const float box =
        std::clamp(draft_.text_height() + px(58), px(kMinBox), most) + ChatPictures::unsent_height(view.now);
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(0, 0));
    ImGui::BeginChild("conversation", size, false, ImGuiWindowFlags_NoScrollbar);
    draw_header(view, size.x);
    ImGui::SetCursorPos({0, header});
    const float offer = nearly_full(view.now) ? px(30) : 0;
    ImGui::BeginChild("messages", {size.x, size.y - header - box - offer - px(8)});
    messages_.draw(view, left, column, editing_);
    ImGui::EndChild();
    if (offer > 0) {
      ImGui::SetCursorPos({left, size.y - box - offer});
      draw_offer(view, column);
    }
    ImGui::SetCursorPos({left, size.y - box});
    draw_composer(view, {column, box});
    ImGui::EndChild();
    ImGui::PopStyleVar();
  }

  void draw_header(const View& view, float width) {
    if (quiet_button(view.layout.conversations ? "‹ list" : "list ›"))
      view.layout.conversations = !view.layout.conversations;
    const char* const settings = view.layout.settings ? "settings ›" : "‹ settings";
    const float right = width - size_of(settings, fonts().small).x - px(14);
    const bool any = !view.now.messages.empty();
    if (any) {
      ImGui::SetCursorPos({right - size_of("export", fonts().small).x - px(22), 0});
      if (quiet_button("export")) ask_for_export(view);
      tooltip("save this conversation as a Markdown file");
    }
    ImGui::SetCursorPos({right, 0});
    if (quiet_button(settings)) view.layout.settings = !view.layout.settings;
    const auto& rows = *view.now.conversations;
    const auto shown = std::ranges::find(rows, view.now.conversation, &api::ConversationRow::id);
    const float room = width - px(260);
    if (!any || shown == rows.end() || room < px(140)) return;
    const ImVec2 at = ImGui::GetWindowPos();
    text_at({at.x + width / 2 - px(20), at.y + px(4)}, shortened(shown->title, room, fonts().small), theme().dim,
            fonts().small, 0.5f);
  }

  void ask_for_export(const View& view) {
    const auto& rows = *view.now.conversations;
    const auto shown = std::ranges::find(rows, view.now.conversation, &api::ConversationRow::id);
    std::string name = shown == rows.end() ? "conversation" : shown->title;
    for (char& c : name)
      if (std::string_view("/\\:*?\"<>|").find(c) != std::string_view::npos || static_cast<unsigned char>(c) < 0x20)
        c = '-';
    export_.ask(FileDialog::For::save, "Save the conversation as", name + ".md",
                [this](const std::string& path) { export_path_ = path; });
  }

  static bool nearly_full(const api::Snapshot& now) {
    return !now.messages.empty() &&
           static_cast<double>(now.kv.tokens) > kNearlyFull * static_cast<double>(now.kv.context);
  }

  static void draw_offer(const View& view, float width) {
    const char* const label = "compact the conversation";
    const float left = ImGui::GetCursorPosX(), top = ImGui::GetCursorPosY();
    const float room = width - size_of(label, fonts().small).x - px(30);
    const api::KvUse& kv = view.now.kv;
    ImGui::SetCursorPos({left + px(16), top + px(5)});
    text(fitting({fmt::format("The context is nearly full: {} of {} tokens; answers stop when it is full.", kv.tokens,
                              kv.context),
                  fmt::format("The context is nearly full: {} of {} tokens.", kv.tokens, kv.context),
                  "The context is nearly full.", ""},
                 room, fonts().small),
         theme().amber, fonts().small);
    ImGui::SetCursorPos({left + width - size_of(label, fonts().small).x - px(30), top + px(2)});
    ImGui::BeginDisabled(busy(view.now));
    if (quiet_button(label)) view.send(intent::Compact{});
    ImGui::EndDisabled();
    tooltip("replaces it by a summary that the model writes; ‹ at the summary shows the messages again");
  }

  static bool busy(const api::Snapshot& now) { return now.state != EngineState::idle; }

  // Returns a failed message to the composer.
  void keep_unsent(const api::Snapshot& now) {
    if (now.conversation != conversation_) editing_ = -1;
    conversation_ = now.conversation;
    const bool arrived = sent_at_ < now.messages.size() && now.messages[sent_at_].text == sent_;
    if (now.error_number == seen_error_) {
      if (arrived && !busy(now)) sent_.clear();
      return;
    }
    seen_error_ = now.error_number;
    if (draft_.empty() && !arrived) draft_.set_text(sent_);
  }

  bool edits_answer(const api::Snapshot& now) const {
    const auto number = static_cast<size_t>(std::max(editing_, 0));
    return editing_ >= 0 && number < now.messages.size() && !now.messages[number].user;
  }

  void edit(const View& view, size_t message) {
    draft_.set_text(view.now.messages[message].text);
    editing_ = static_cast<int>(message);
    draft_.focus();
    if (!view.now.messages[message].pictures.empty() || !view.now.pictures.empty())
      view.send(intent::EditPictures{message});
  }

  void send(const View& view) {
    const std::string text = draft_.text();
    const bool blank = text.find_first_not_of(" \n\t") == std::string::npos;
    if ((blank && view.now.pictures.empty()) || busy(view.now)) return;
    const bool answer = edits_answer(view.now);
    sent_ = text;
    sent_at_ = editing_ < 0 ? view.now.messages.size() : static_cast<size_t>(editing_);
    answer         ? view.send(intent::EditAnswer{sent_at_, text})
    : editing_ < 0 ? view.send(intent::Send{text})
                   : view.send(intent::EditAndResend{sent_at_, text});
    draft_.set_text("");
    editing_ = -1;
    if (!answer) messages_.follow();
    draft_.focus();
  }

  void draw_hints(const View& view, ImVec2 size) {
    const ImVec2 corner = ImGui::GetWindowPos();
    const float cost = ChatPictures::draw_cost(view, {corner.x + size.x - px(16), corner.y + size.y - px(22)});
    const float room = size.x - cost - px(270);
    const std::string keys =
        editing_ >= 0 ? fitting({edits_answer(view.now) ? "Enter replaces the answer"
                                                        : "Enter resends; the earlier version is kept",
                                 ""},
                                room, fonts().small)
                      : fitting({"Enter sends · Shift Enter adds a line", "Enter sends", ""}, room, fonts().small);
    ImGui::SetCursorPos({px(16), size.y - px(22)});
    dim_text(keys);
    ImGui::SetCursorPos({px(keys.empty() ? 9 : 25) + size_of(keys, fonts().small).x, size.y - px(25)});
    pictures_.draw_button(view);
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
    draft_.set_paste_other([&] {
      if (std::string file = clipboard_picture(); !file.empty())
        view.send(intent::AddPicture{"pasted image", std::make_shared<const std::string>(std::move(file))});
    });
    const bool entered = draft_.draw("draft", {size.x - button - px(48), size.y - px(42) - pictures}, fonts().body,
                                     TextEditor::Enter::sends, "Message");
    record_widget_position("message box");
    draft_.set_paste({});
    draft_.set_paste_other({});
    if (entered) send(view);
    draw_hints(view, size);
    ImGui::SetCursorPos({size.x - button - px(16), top});
    const bool answering = view.now.state == EngineState::reading || view.now.state == EngineState::writing;
    if (answering) {
      if (plain_button("Stop", {button, px(36)})) view.send(intent::Stop{});
    } else {
      ImGui::BeginDisabled(busy(view.now));
      const char* const label = editing_ < 0 ? "Send" : edits_answer(view.now) ? "Save" : "Resend";
      if (accent_button(label, {button, px(36)})) send(view);
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

  TextEditor draft_;
  std::string sent_, conversation_;
  size_t sent_at_ = 0;
  int editing_ = -1;
  uint64_t seen_error_ = 0;
  ConversationList list_;
  ChatSettings settings_;
  ChatPictures pictures_;
  MessageList messages_; // uses pictures_
  FileDialog export_;
  std::string export_path_;
};

} // namespace

std::unique_ptr<Panel> make_chat_panel() { return std::make_unique<ChatPanel>(); }

} // namespace ridge::ui
