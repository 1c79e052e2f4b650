// Settings beside the chat.
#pragma once

#include "ui/panels/panel.h"
#include "ui/widgets/text_editor.h"

#include <string>

namespace ridge::ui {

class ChatSettings {
 public:
  void draw(const View& view, ImVec2 size);

 private:
  void draw_presets(const View& view);
  void draw_system(const View& view);

  TextEditor system_;
  std::string preset_;       // selected or typed
  std::string shown_system_; // last one from a snapshot
};

} // namespace ridge::ui
