// A field for text of several lines, wrapped between words, which ImGui's own field cannot do.
#pragma once

#include "ui/widgets/wrapped_text.h"

#include <imgui.h>

#include <functional>
#include <string>
#include <string_view>

namespace ridge::ui {

class TextEditor {
 public:
  enum class Enter { sends, breaks_line }; // with Ctrl or Shift it does break lines in any case

  // Draws it at the cursor, on nothing; shows `hint` where it is empty. True when Enter was pressed that sends.
  bool draw(const char* id, ImVec2 size, ImFont* font, Enter enter, std::string_view hint = {});

  std::string text() const { return text_.utf8(); }
  void set_text(std::string_view utf8) { text_.set(utf8); }
  bool empty() const { return text_.characters().empty(); }
  void focus() { focus_ = true; } // when it is drawn next
  bool active() const { return active_; }
  float text_height() const { return text_height_; } // in the last draw(), pixels
  bool was_left() const { return was_left_; }        // in the last draw()
  // What is asked before text is pasted: whether it takes the text, which then stays out.
  void set_paste(std::function<bool(std::string_view)> takes) { takes_paste_ = std::move(takes); }
  // What is called where something is pasted that is no text.
  void set_paste_other(std::function<void()> take) { take_other_ = std::move(take); }

 private:
  bool take_keys(Enter enter);
  void draw_text(ImVec2 at, float line, ImFont* font, const std::vector<WrappedText::Row>& rows) const;

  WrappedText text_;
  std::function<bool(std::string_view)> takes_paste_;
  std::function<void()> take_other_;
  bool focus_ = false, active_ = false, was_left_ = false, show_cursor_ = false;
  float text_height_ = 0;
  double changed_at_ = 0; // when the caret moved: it does not blink right after
};

} // namespace ridge::ui
