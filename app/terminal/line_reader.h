// How the chat reads what a person types: libedit on a terminal (editing, history, paste of several lines as one
// message), plain lines from a pipe or a dumb terminal.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace ridge::app {

class LineReader {
 public:
  enum class Event { message, end_of_input, interrupted };

  LineReader(); // history is kept in $XDG_STATE_HOME/ridge/history (~/.local/state/…)
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // One message: a line, or several where a line ends with a backslash or Alt-Enter, or where several were pasted.
  // `interrupted`: Ctrl-C dropped what was typed. `message` has no trailing newline.
  Event read(std::string& message);

 private:
  class Editor;
  Event read_line(std::string& line, bool first, bool& continues);

  std::unique_ptr<Editor> editor_; // null: plain lines
};

} // namespace ridge::app
