// Editable, wrapped Unicode text, based on stb_textedit.
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

  void set(std::string_view utf8); // moves the cursor to the end and clears undo
  std::string utf8() const;
  const std::u32string& characters() const;

  // In pixels. Holds until the next call.
  void set_layout(float width, float line_height, std::function<float(char32_t)> advance);
  struct Row {
    int begin, end; // characters; a line break ends its row
  };
  std::vector<Row> rows() const;

  void press(EditKey key, bool select);
  void type(char32_t character);
  void paste(std::string_view utf8);
  void click(float x, float y); // pixels
  void drag(float x, float y);  // selects from the click
  void select_all();
  void select_word();
  std::string selected() const;
  void cut();

  int cursor() const;
  std::pair<int, int> selection() const; // characters; may be empty

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace ridge::ui
