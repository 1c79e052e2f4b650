// Multi-line text field with word wrap.
#pragma once

#include "ui/widgets/wrapped_text.h"

#include <imgui.h>

#include <functional>
#include <string>
#include <string_view>

namespace ridge::ui {

class TextEditor {
 public:
  enum class Enter { sends, breaks_line }; // with Ctrl or Shift always breaks the line

  // Draws at the cursor. Returns true when Enter sends.
  bool draw(const char* id, ImVec2 size, ImFont* font, Enter enter, std::string_view hint = {});

  std::string text() const { return text_.utf8(); }
  void set_text(std::string_view utf8) { text_.set(utf8); }
  bool empty() const { return text_.characters().empty(); }
  void focus() { focus_ = true; }
  bool active() const { return active_; }
  float text_height() const { return text_height_; } // pixels, in the last draw()
  bool lost_focus() const { return lost_focus_; }
  // `takes` is called before a paste; true: nothing is inserted.
  void set_paste(std::function<bool(std::string_view)> takes) { takes_paste_ = std::move(takes); }
  // `take` is called when the clipboard has no text to paste.
  void set_paste_other(std::function<void()> take) { take_other_ = std::move(take); }

 private:
  bool take_keys(Enter enter);
  void draw_text(ImVec2 at, float line, ImFont* font, const std::vector<WrappedText::Row>& rows) const;

  WrappedText text_;
  std::function<bool(std::string_view)> takes_paste_;
  std::function<void()> take_other_;
  bool focus_ = false, active_ = false, lost_focus_ = false, show_cursor_ = false;
  float text_height_ = 0;
  double changed_at_ = 0; // restarts the caret's blinking
};

} // namespace ridge::ui
