// Settings beside the chat.
#pragma once

#include "ui/dialogs/file_dialog.h"
#include "ui/panels/panel.h"
#include "ui/widgets/text_editor.h"

#include <string>

namespace ridge::ui {

class ChatSettings {
 public:
  void draw(const View& view, ImVec2 size);
  // Call once a frame, outside other windows.
  void draw_over(const View& view);
  bool is_over() const { return dialog_.is_open(); }

 private:
  void draw_adapters(const View& view);
  void draw_presets(const View& view);
  void draw_system(const View& view);

  FileDialog dialog_;
  std::string picked_; // an adapter's file
  TextEditor system_;
  std::string preset_;       // selected or typed
  std::string shown_system_; // last one from a snapshot
};

} // namespace ridge::ui
