#include "app/terminal/terminal.h"

#include "app/jobs.h"
#include "app/terminal/streams.h"
#include "core/strings/base64.h"
#include "core/strings/utf8.h"
#include "core/units.h"

#include <fmt/format.h>

#include <sys/ioctl.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <termios.h>
#include <unistd.h>

namespace ridge::app {
namespace {

std::atomic<bool> interrupted{false};

std::atomic<bool> keys_hidden{false};
termios shown_keys = {}; // the terminal's settings before HiddenKeys

void show_keys() { // also called by a signal handler
  if (keys_hidden.exchange(false)) ::tcsetattr(STDIN_FILENO, TCSANOW, &shown_keys);
}

void on_interrupt(int) {
  if (interrupted.exchange(true)) {
    show_keys();
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

std::string without_controls(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    std::string_view rest = text;
    const char32_t code = core::take_character(rest);
    const bool control = (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7f && code < 0xa0);
    if (!control) kept += text.substr(0, text.size() - rest.size());
    text = rest;
  }
  return kept;
}

int columns_of(int file) {
  winsize size = {};
  return ::isatty(file) && ::ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

constexpr std::chrono::milliseconds kQuietTime{500}, kRedrawTime{100};

} // namespace

int terminal_rows() {
  winsize size = {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

bool stdin_is_terminal() { return ::isatty(STDIN_FILENO); }
bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO); }
bool stderr_is_terminal() { return ::isatty(STDERR_FILENO); }

bool use_color() {
  static const bool use = [] {
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    return stdout_is_terminal() && stderr_is_terminal() && !(no_color && *no_color) && term &&
           std::strcmp(term, "dumb") != 0;
  }();
  return use;
}

std::string dim(std::string_view text) {
  return use_color() ? fmt::format("\033[2m{}\033[0m", text) : std::string(text);
}
std::string bold(std::string_view text) {
  return use_color() ? fmt::format("\033[1m{}\033[0m", text) : std::string(text);
}

void note(std::string_view line) { write_stderr(fmt::format("{}\n", dim(wrapped(line, stderr_columns(), 0)))); }

void print_row(std::string_view name, int width, std::string_view text) {
  fmt::print("{:<{}}{}\n", name, width, wrapped(text, terminal_columns(), width));
}

std::string clipboard_order(std::string_view text) {
  return fmt::format("\033]52;c;{}\a", core::to_base64(std::as_bytes(std::span(text))));
}

int terminal_columns() { return columns_of(STDOUT_FILENO); }
int stderr_columns() { return columns_of(STDERR_FILENO); }

void TextPrinter::print(std::string_view text, bool reasoning) {
  if (stdout_is_terminal()) {
    print_on_terminal(text, reasoning);
  } else if (!reasoning && !text.empty()) {
    write_stdout(text);
    last_ = text.back();
  }
}

void TextPrinter::print_on_terminal(std::string_view text, bool reasoning) {
  std::string line;
  if (reasoning != dimmed_) {
    line = wrap_.flush(terminal_columns());
    if (dimmed_ && !wrap_.at_line_start()) line += wrap_.add("\n", terminal_columns());
    if (use_color()) line += reasoning ? "\033[2m" : "\033[0m";
    dimmed_ = reasoning;
  }
  const std::string shown = without_controls(text);
  if (markdown_ && !reasoning)
    line += answer_.add(shown, terminal_columns(), terminal_rows());
  else
    line += wrap_.add(shown, terminal_columns());
  write_stdout(line);
}

void TextPrinter::finish() {
  std::string rest = wrap_.flush(terminal_columns()) + answer_.flush(terminal_columns());
  if (dimmed_ && use_color()) rest += "\033[0m";
  if (!wrap_.at_line_start() || !answer_.at_line_start() || last_ != '\n') rest += '\n';
  write_stdout(rest);
}

Progress::Progress(std::string label) : label_(std::move(label)), start_(Clock::now()), shown_(start_) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (drawn_ && stderr_is_terminal()) write_stderr("\r\033[K");
  drawn_ = false;
}

void Progress::update(std::string_view label, int64_t done, int64_t total, std::string_view detail) {
  if (label != label_) {
    clear();
    label_ = label;
    start_ = shown_ = Clock::now();
    begun_at_ = -1;
  }
  update(done, total, detail);
}

void Progress::update(int64_t done, int64_t total, std::string_view detail) {
  if (!stderr_is_terminal()) return;
  const auto now = Clock::now();
  const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
  if (begun_at_ < 0) begun_at_ = share;
  if (status_.empty() && now - start_ < kQuietTime) return;
  if ((drawn_ || status_.empty()) && now - shown_ < kRedrawTime) return;
  std::string behind(detail), time;
  const double spent_s = std::chrono::duration<double>(now - start_).count();
  if (const double left_s = remaining_seconds(spent_s, begun_at_, share); behind.empty() && left_s >= 0)
    time = fmt::format(", {} left", core::human_seconds(left_s));
  behind = (status_.empty() ? "" : ", " + status_) + behind + time;
  // Must fit on one line: a wrapped line could not be erased.
  constexpr int kLongestBar = 30, kRest = 10, kUsualColumns = 80;
  const int columns = stderr_columns() > 0 ? stderr_columns() : kUsualColumns;
  const int texts = static_cast<int>(core::utf8_length(label_) + core::utf8_length(behind));
  const int width = std::clamp(columns - texts - kRest, 0, kLongestBar), full = static_cast<int>(share * width);
  const std::string bar =
      width > 2 ? fmt::format(" [{}{}]", std::string(full, '#'), std::string(width - full, ' ')) : "";
  const std::string line = fmt::format("{}{} {:3.0f} %{}", label_, bar, 100 * share, behind);
  write_stderr(fmt::format("\r{}\033[K",
                           line.substr(0, core::utf8_valid_prefix(line.substr(0, static_cast<size_t>(columns - 1))))));
  shown_ = now;
  drawn_ = true;
}

engine::LoadSteps load_on_terminal() {
  const auto bar = std::make_shared<Progress>();
  return {[bar](std::string_view what, int64_t done, int64_t total) { bar->update(what, done, total); },
          [bar](const std::string& line) {
            bar->clear();
            note(line);
          }};
}

HiddenKeys::HiddenKeys() {
  if (::tcgetattr(STDIN_FILENO, &shown_keys) != 0) return;
  termios hidden = shown_keys;
  hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
  keys_hidden = ::tcsetattr(STDIN_FILENO, TCSANOW, &hidden) == 0;
}

HiddenKeys::~HiddenKeys() { show_keys(); }
void HiddenKeys::keep() { keys_hidden = false; }

InterruptFlag::InterruptFlag() {
  interrupted = false;
  struct sigaction action = {};
  action.sa_handler = on_interrupt; // without SA_RESTART, so that blocking reads return
  ::sigaction(SIGINT, &action, &previous_);
}

InterruptFlag::~InterruptFlag() {
  interrupted = false;
  ::sigaction(SIGINT, &previous_, nullptr);
}

void InterruptFlag::lower() { interrupted = false; }

const std::atomic<bool>* InterruptFlag::flag() const { return &interrupted; }

} // namespace ridge::app
