// Pictures in the chat.
#pragma once

#include "ui/dialogs/file_dialog.h"
#include "ui/panels/panel.h"

#include <imgui.h>

#include <memory>
#include <string>

namespace ridge::ui {

class ChatPictures {
 public:
  // Draws the unsent pictures with their tokens and remove buttons.
  static float unsent_height(const api::Snapshot& now); // 0: none
  void draw_unsent(const View& view, float width);
  // Draws rows at the right of a column.
  void draw_sent(const View& view, const api::MessagePictures& pictures, float column);
  // Draws the total cost left of `right`; red if the context has no room. Returns the width.
  static float draw_cost(const View& view, ImVec2 right);
  void draw_button(const View& view);
  // Call once a frame, outside other windows.
  void draw_over(const View& view);
  bool is_over() const { return enlarged_ || dialog_.is_open(); }

 private:
  using Picture = std::shared_ptr<const api::MessagePicture>;
  bool draw_thumbnail(const View& view, const Picture& picture, ImVec2 box);
  void draw_enlarged(const View& view);
  void enlarge(const View& view, const Picture& picture);

  Picture enlarged_;
  bool opening_ = false;
  std::string picked_;
  FileDialog dialog_;
};

} // namespace ridge::ui
