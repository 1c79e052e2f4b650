// How the chat reads what a person types: libedit on a terminal (editing, history, paste of several lines as one
// message), plain lines from a pipe or a dumb terminal.
#pragma once

#include "app/terminal/completions.h"
#include "app/terminal/terminal.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ridge::app {

class LineReader {
 public:
  enum class Event { message, end_of_input, interrupted };

  // What may stand where a line that begins so ends: for the Tab key.
  using Completer = std::function<Completions(const std::string& before)>;

  // History is kept in $XDG_STATE_HOME/ridge/history (~/.local/state/…). The flag must outlive the reader.
  explicit LineReader(InterruptFlag& interrupt, Completer completer = nullptr);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // One message: a line, or several where a line ends with a backslash or Alt-Enter, or where several were pasted.
  // `interrupted`: Ctrl-C dropped what was typed; the flag is down again. It is also lowered before a message is read,
  // but never behind one: Ctrl-C is then meant for the answer. `message` has no trailing newline.
  Event read(std::string& message);

 private:
  class Editor;
  Event read_line(std::string& line, bool first, bool& continues);

  InterruptFlag& interrupt_;
  std::unique_ptr<Editor> editor_; // null: plain lines
};

} // namespace ridge::app
