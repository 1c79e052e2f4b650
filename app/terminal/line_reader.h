// The chat's input: libedit on a terminal, plain lines otherwise.
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

  using Completer = std::function<Completions(const std::string& before)>;

  // History: $XDG_STATE_HOME/ridge/history (~/.local/state/…). The flag must outlive the reader.
  explicit LineReader(InterruptFlag& interrupt, Completer completer = nullptr);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Reads a line, or several that end with a backslash or Alt-Enter or were pasted. `interrupted`: Ctrl-C discarded the
  // input. The flag is lowered before reading and after a discard, but not after a message, since Ctrl-C then applies
  // to the answer. `message` has no trailing newline.
  Event read(std::string& message);

 private:
  class Editor;
  Event read_line(std::string& line, bool first, bool& continues);

  InterruptFlag& interrupt_;
  std::unique_ptr<Editor> editor_; // null: plain lines
};

} // namespace ridge::app
