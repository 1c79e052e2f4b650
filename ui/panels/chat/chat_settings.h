// What decides how the model answers, beside the chat: context, system prompt, sampling.
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
  std::string preset_;       // the name that is used, or typed
  std::string shown_system_; // of the snapshot, when it was last taken over
};

} // namespace ridge::ui
