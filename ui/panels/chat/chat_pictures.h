// Pictures in the chat: of the message that is being written, of those that were sent, and one enlarged.
#pragma once

#include "ui/dialogs/file_dialog.h"
#include "ui/panels/panel.h"

#include <imgui.h>

#include <memory>
#include <string>

namespace ridge::ui {

class ChatPictures {
 public:
  // Draws the pictures of the message that is being written, each with its tokens and a button that removes it.
  static float unsent_height(const core::Snapshot& now); // 0: there are none
  void draw_unsent(const View& view, float width);
  // Draws a message's pictures at the right of a column, in as many rows as they need.
  void draw_sent(const View& view, const core::MessagePictures& pictures, float column);
  // What they cost together, red where the context has no room for it, as a line that ends at `right`. Its width.
  static float draw_cost(const View& view, ImVec2 right);
  // A button that asks for a file.
  void draw_button();
  // Once a frame, outside other windows: the dialog, and the picture that was clicked on.
  void draw_over(const View& view);
  bool is_over() const { return enlarged_ || dialog_.is_open(); }

 private:
  using Picture = std::shared_ptr<const core::MessagePicture>;
  bool draw_thumbnail(const View& view, const Picture& picture, ImVec2 box);
  void draw_enlarged(const View& view);
  void enlarge(const View& view, const Picture& picture);

  Picture enlarged_; // null: none is
  bool opening_ = false;
  std::string picked_; // by the dialog
  FileDialog dialog_;
};

} // namespace ridge::ui
