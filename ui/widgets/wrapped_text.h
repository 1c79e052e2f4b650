// A text being edited, its lines wrapped between words: positions, selection, undo. stb_textedit does the editing; this
// adds the wrapping, and whole Unicode.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::ui {

enum class EditKey {
  left,
  right,
  up,
  down,
  line_start,
  line_end,
  text_start,
  text_end,
  word_left,
  word_right,
  remove,
  backspace,
  undo,
  redo
};

class WrappedText {
 public:
  WrappedText();
  ~WrappedText();

  void set(std::string_view utf8); // the cursor goes to its end; what was done is forgotten
  std::string utf8() const;
  const std::u32string& characters() const;

  // How wide lines may be, how wide each character is and how high a line is, in pixels. Counts until it is set again.
  void set_layout(float width, float line_height, std::function<float(char32_t)> advance);
  struct Row {
    int begin, end; // characters; a line break belongs to the row before it
  };
  std::vector<Row> rows() const; // at least one

  void press(EditKey key, bool select);
  void type(char32_t character);
  void paste(std::string_view utf8);
  void click(float x, float y); // pixels from the top left corner
  void drag(float x, float y);  // selects from the click on
  void select_all();
  void select_word(); // at the cursor
  std::string selected() const;
  void cut();

  int cursor() const;
  std::pair<int, int> selection() const; // characters, in order; empty: none

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace ridge::ui
