// Colours, progress and Ctrl-C; output to stderr.
#pragma once

#include "app/terminal/markdown/markdown_stream.h"
#include "app/terminal/markdown/word_wrap.h"
#include "engine/loading/loaded_model.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::app {

bool stdin_is_terminal();
bool stdout_is_terminal();
bool stderr_is_terminal();
bool use_color(); // a terminal that is not "dumb", without NO_COLOR

// Styled if use_color().
std::string dim(std::string_view text);
std::string bold(std::string_view text);

void note(std::string_view line); // prints a dim line to stderr, wrapped on a terminal

// Prints two columns to stdout.
void print_row(std::string_view name, int width, std::string_view text);

// The escape sequence that sets the clipboard (OSC 52).
std::string clipboard_order(std::string_view text);

// Current width of the terminal on stdout or stderr; 0: none or unknown.
int terminal_columns();
int stderr_columns();
int terminal_rows(); // of stdout; 0: none or unknown

// Streams a model's text to stdout. A terminal gets wrapped text, dim reasoning, no control characters and, with
// `markdown` and colours, rendered Markdown. A pipe or file gets only the answer, byte for byte.
class TextPrinter {
 public:
  explicit TextPrinter(bool markdown) : markdown_(markdown && use_color()) {}
  void print(std::string_view text, bool reasoning); // whole characters
  void finish();                                     // ends the line

 private:
  void print_on_terminal(std::string_view text, bool reasoning);

  const bool markdown_;
  WordWrap wrap_;
  MarkdownStream answer_;
  bool dimmed_ = false;
  char last_ = '\n';
};

// Progress bar with the remaining time, on terminals, after half a second. clear() and the destructor erase it.
class Progress {
 public:
  explicit Progress(std::string label = "");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(int64_t done, int64_t total, std::string_view detail = "");
  // A new label starts new work. `detail` replaces the remaining time.
  void update(std::string_view label, int64_t done, int64_t total, std::string_view detail = "");
  void say(std::string status) { status_ = std::move(status); } // stands before the remaining time, from the start
  void clear();                                                 // erases it until the next update

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_, status_;
  Clock::time_point start_, shown_;
  double begun_at_ = -1; // share at the first update; negative: none yet
  bool drawn_ = false;
};

engine::LoadSteps load_on_terminal();

// The terminal does not show keys that are typed while this exists; the next prompt reads and shows them. The terminal
// passes them on as typed: in its line mode Ctrl-D would become a null character for a prompt that reads keys. Nothing
// where stdin is no terminal. Only one at a time.
class HiddenKeys {
 public:
  HiddenKeys();
  ~HiddenKeys();
  void keep(); // leaves the terminal as it is: other settings have replaced these
  HiddenKeys(const HiddenKeys&) = delete;
  HiddenKeys& operator=(const HiddenKeys&) = delete;
};

// Ctrl-C raises the flag, or ends the program if the flag is up. Only one at a time.
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;
  const std::atomic<bool>* flag() const;
  bool raised() const { return flag()->load(); }
  void lower(); // after the interrupted work has ended

 private:
  struct sigaction previous_;
};

} // namespace ridge::app
