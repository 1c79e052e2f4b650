// The list of conversations beside the chat.
#pragma once

#include "ui/panels/panel.h"

#include <imgui.h>

#include <string>

namespace ridge::ui {

class ConversationList {
 public:
  void draw(const View& view, ImVec2 size);

 private:
  void draw_search(const View& view);
  void draw_row(const View& view, const api::ConversationRow& row);
  void draw_name_field(const View& view, const api::ConversationRow& row);

  std::string renaming_, name_; // id and new name of the one being renamed
  std::string search_;
  std::string deleting_; // id to delete after confirmation
  bool focus_name_ = false;
};

} // namespace ridge::ui
