// What a person sees besides the results: colours, progress, and Ctrl-C. Results go to stdout, all of this to stderr.
#pragma once

#include "app/terminal/markdown/markdown_stream.h"
#include "app/terminal/word_wrap.h"
#include "engine/loaded_model.h"

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
bool use_color(); // on a terminal that is not "dumb", unless NO_COLOR is set

// Text in the given style where use_color(), else as it is.
std::string dim(std::string_view text);
std::string bold(std::string_view text);

void note(std::string_view line); // one dim line to stderr, on a terminal wrapped at words

// To stdout: a name in a column so wide, and a text beside it, which a terminal gets wrapped at words.
void print_row(std::string_view name, int width, std::string_view text);

// What puts a text on the clipboard of a terminal that allows it (OSC 52).
std::string clipboard_order(std::string_view text);

// Columns of the terminal that stdout or stderr is, as it is now; 0: it is no terminal, or does not say.
int terminal_columns();
int stderr_columns();
int terminal_rows(); // of stdout; 0: it is no terminal, or does not say

// Prints a model's text to stdout as it is written. A terminal gets it wrapped at words, with reasoning dimmed and
// without control characters, which could steer the terminal; with `markdown`, and where there are colours, the answer
// as Markdown. A pipe or a file gets the answer only, byte for byte.
class TextPrinter {
 public:
  explicit TextPrinter(bool markdown) : markdown_(markdown && use_color()) {}
  void print(std::string_view text, bool reasoning); // whole characters
  void finish();                                     // writes the word that WordWrap buffers and ends the line

 private:
  void print_on_terminal(std::string_view text, bool reasoning);

  const bool markdown_;
  WordWrap wrap_;         // of reasoning, and of answers without Markdown
  MarkdownStream answer_; // with it
  bool dimmed_ = false;
  char last_ = '\n'; // of what a pipe got
};

// A progress bar on a terminal, with the time that is left as soon as it can be known; elsewhere nothing. Work that
// ends within half a second shows nothing, either. Gone from the screen when cleared or destroyed.
class Progress {
 public:
  explicit Progress(std::string label = "");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(int64_t done, int64_t total, std::string_view detail = "");
  // Another label is other work. `detail`: shown behind the percentage, instead of the time that is left.
  void update(std::string_view label, int64_t done, int64_t total, std::string_view detail = "");
  void clear(); // makes room for a line; the next update draws it again

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  Clock::time_point start_, shown_;
  double begun_at_ = -1; // the share that was done when the work began; below 0: nothing was said yet
  bool drawn_ = false;
};

// Loading a model with a progress bar and notes.
engine::LoadSteps load_on_terminal();

// While it lives, Ctrl-C raises the flag instead of ending the program; another one, while the flag is up, ends it at
// once. One at a time: the flag is the program's.
class InterruptFlag {
 public:
  InterruptFlag();
  ~InterruptFlag();
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;
  const std::atomic<bool>* flag() const;
  bool raised() const { return flag()->load(); }
  void lower(); // what was to be interrupted has ended

 private:
  struct sigaction previous_;
};

} // namespace ridge::app
