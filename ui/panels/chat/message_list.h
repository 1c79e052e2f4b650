// The conversation's messages.
#pragma once

#include "ui/dialogs/link_question.h"
#include "ui/markdown/markdown_view.h"
#include "ui/panels/chat/chat_pictures.h"
#include "ui/panels/chat/first_models.h"
#include "ui/panels/panel.h"

#include <functional>
#include <string>
#include <vector>

namespace ridge::ui {

class MessageList {
 public:
  // `edit` is called to start editing a message.
  MessageList(ChatPictures& pictures, std::function<void(const View&, size_t)> edit)
      : pictures_(pictures), edit_(std::move(edit)) {}

  // Fills the current ImGui window, from `left`. `editing`: the message being edited, or -1.
  void draw(const View& view, float left, float column, int editing);
  void draw_over(); // once a frame, outside other windows
  bool is_over() const { return link_.is_open(); }
  void follow() { follow_ = true; } // scroll along with the answer

 private:
  struct Known {
    size_t length = 0; // text length for which the height holds
    float pixels = 0;
    MarkdownView text;
    bool open = false; // reasoning or result expanded
  };

  void draw_welcome(const View& view, float left, float column);
  void draw_question(const View& view, size_t i, float left, float column);
  void draw_answer(const View& view, size_t i, float left, float column);
  void draw_result(const View& view, size_t i, float column);
  void draw_reasoning(const api::ChatMessage& message, Known& known, float column, bool growing);
  void draw_answer_actions(const View& view, size_t i, float left, float column);
  static void draw_versions(const View& view, size_t i);
  void draw_models(const View& view, size_t i);

  ChatPictures& pictures_;
  FirstModels first_models_;
  const std::function<void(const View&, size_t)> edit_;
  std::vector<Known> known_;
  float column_ = 0;
  std::string conversation_;
  bool follow_ = true;
  LinkQuestion link_;
};

} // namespace ridge::ui
