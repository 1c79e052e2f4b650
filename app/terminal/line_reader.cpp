#include "app/terminal/line_reader.h"

#include "app/terminal/markdown/word_wrap.h"
#include "app/terminal/terminal.h"
#include "core/files/private_folder.h"
#include "core/files/xdg.h"
#include "core/strings/utf8.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <filesystem>
#include <iostream>
#include <utility>
#include <vector>

namespace ridge::app {
namespace {

constexpr const char* kPrompt = "> ";
constexpr const char* kContinuation = "… ";
constexpr int kPromptColumns = 2;
constexpr int kHistoryLines = 2000;
constexpr size_t kShownPaste = 400; // longest paste shown as typed, in characters

volatile std::sig_atomic_t window_changed = 0;

std::string history_path() { return core::state_folder().empty() ? "" : core::state_folder() + "/history"; }

std::string to_utf8(const std::wstring& text) {
  std::string out(text.size() * MB_CUR_MAX + 1, '\0');
  const size_t bytes = std::wcstombs(out.data(), text.c_str(), out.size());
  out.resize(bytes == static_cast<size_t>(-1) ? 0 : bytes);
  return out;
}

// Blocks SIGINT and SIGWINCH except while waiting for input; otherwise one could arrive between the check of its flag
// and the wait.
class WaitForSignals {
 public:
  explicit WaitForSignals(sigset_t& while_waiting) {
    sigset_t held;
    ::sigemptyset(&held);
    ::sigaddset(&held, SIGINT);
    ::sigaddset(&held, SIGWINCH);
    ::sigprocmask(SIG_BLOCK, &held, &previous_);
    while_waiting = previous_;
  }
  ~WaitForSignals() { ::sigprocmask(SIG_SETMASK, &previous_, nullptr); }
  WaitForSignals(const WaitForSignals&) = delete;
  WaitForSignals& operator=(const WaitForSignals&) = delete;

 private:
  sigset_t previous_;
};

} // namespace

class LineReader::Editor {
 public:
  Editor(const InterruptFlag& interrupt, Completer completer)
      : interrupt_(interrupt), completer_(std::move(completer)) {
    // libedit uses the locale's wide characters; locales other than UTF-8 would garble input.
    std::setlocale(LC_CTYPE, "");
    if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");

    edit_ = el_init("ridge", stdin, stdout, stderr);
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT_ESC, &prompt, '\1');
    el_set(edit_, EL_EDITOR, "emacs");
    el_wset(edit_, EL_GETCFN, &read_character);
    el_set(edit_, EL_ADDFN, "ridge-paste", "insert pasted text", &on_paste);
    el_set(edit_, EL_ADDFN, "ridge-newline", "continue on a new line", &on_newline);
    el_set(edit_, EL_ADDFN, "ridge-complete", "complete a command, its value or a path", &on_tab);
    el_set(edit_, EL_BIND, "\t", "ridge-complete", nullptr);
    el_set(edit_, EL_BIND, "\033[200~", "ridge-paste", nullptr);
    el_set(edit_, EL_BIND, "\033\r", "ridge-newline", nullptr);
    el_set(edit_, EL_BIND, "\033\n", "ridge-newline", nullptr);
    el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_source(edit_, nullptr); // ~/.editrc

    history_ = history_init();
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(edit_, EL_HIST, history, history_);
    path_ = history_path();
    if (!path_.empty()) history(history_, &event, H_LOAD, path_.c_str());

    struct sigaction action = {};
    action.sa_handler = [](int) { window_changed = 1; };
    ::sigaction(SIGWINCH, &action, nullptr);
    hidden_keys_.emplace(); // after el_init, which restores at the end the settings that it finds
  }

  ~Editor() {
    hidden_keys_.reset();
    history_end(history_);
    el_end(edit_);
  }

  Event read(std::string& line, bool first, bool& continues) {
    const WaitForSignals signals(waiting_);
    first_ = first;
    newline_ = false;
    drawn_width_ = 0;
    pastes_.clear();
    el_set(edit_, EL_PREP_TERM, 1); // raw mode before the prompt: early keys must bypass the line discipline
    hidden_keys_->keep();
    hidden_keys_.reset();
    bracketed_paste(true);
    int count = 0;
    errno = 0;
    const char* text = el_gets(edit_, &count);
    bracketed_paste(false);
    hidden_keys_.emplace();
    if (!text || count <= 0) {
      std::fputs("\n", stdout);
      return interrupt_.raised() ? Event::interrupted : Event::end_of_input;
    }
    line = with_pastes(text);
    if (!line.empty() && line.back() == '\n') line.pop_back();
    continues = newline_;
    return Event::message;
  }

  // Written at once, so that a kill loses nothing. Multi-line messages are stored as typed lines.
  void remember(const std::string& line) {
    if (line.find_first_not_of(" \t\n") == std::string::npos) return;
    HistEvent event;
    history(history_, &event, H_ENTER, line.c_str());
    if (path_.empty()) return;
    std::error_code ignored;
    core::create_private_folders(std::filesystem::path(path_).parent_path().string(), ignored);
    history(history_, &event, H_SAVE, path_.c_str());
  }

 private:
  static Editor& self(EditLine* edit) {
    void* data = nullptr;
    el_get(edit, EL_CLIENTDATA, &data);
    return *static_cast<Editor*>(data);
  }

  static char* prompt(EditLine* edit) {
    const Editor& editor = self(edit);
    static std::string text;
    text = editor.first_ ? kPrompt : kContinuation;
    if (use_color()) text = "\1\033[1;32m\1" + text + "\1\033[0m\1";
    return text.data();
  }

  static int read_character(EditLine* edit, wchar_t* out) {
    const Editor& editor = self(edit);
    std::mbstate_t state = {};
    while (true) {
      if (editor.interrupt_.raised()) return -1;
      if (window_changed) {
        window_changed = 0;
        go_to_start(edit);
        el_resize(edit);
        el_set(edit, EL_REFRESH);
      }
      pollfd input = {STDIN_FILENO, POLLIN, 0};
      if (::ppoll(&input, 1, nullptr, &editor.waiting_) < 0 && errno == EINTR) continue;
      char byte;
      const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
      if (got <= 0) return static_cast<int>(got);
      const size_t used = std::mbrtowc(out, &byte, 1, &state);
      if (used == static_cast<size_t>(-2)) continue; // incomplete multibyte character
      if (used == static_cast<size_t>(-1)) {
        state = {};
        continue;
      }
      return 1;
    }
  }

  // Clears the line before a redraw. A resized terminal rewraps text and keeps the cursor at its character, but keeps
  // breaks that libedit wrote when drawing the whole line.
  static void go_to_start(EditLine* edit) {
    Editor& editor = self(edit);
    const LineInfoW* line = el_wline(edit);
    const int width = std::max(terminal_columns(), 1), before = kPromptColumns + columns_of(line->buffer, line->cursor);
    int rows = before / width;
    if (editor.drawn_width_ > 0) {
      const int broken = std::min(before, editor.drawn_columns_) / editor.drawn_width_;
      rows = broken * ((editor.drawn_width_ + width - 1) / width) + (before - broken * editor.drawn_width_) / width;
    }
    std::fputs((rows > 0 ? "\033[" + std::to_string(rows) + "A\r\033[J" : std::string("\r\033[J")).c_str(), stdout);
    std::fflush(stdout);
    editor.drawn_width_ = width;
    editor.drawn_columns_ = kPromptColumns + columns_of(line->buffer, line->lastchar);
  }

  static int columns_of(const wchar_t* begin, const wchar_t* end) {
    int columns = 0;
    for (; begin < end; ++begin) columns += display_width(static_cast<char32_t>(*begin));
    return columns;
  }

  static unsigned char on_tab(EditLine* edit, int) {
    const Editor& editor = self(edit);
    const LineInfo* info = el_line(edit);
    const std::string before(info->buffer, info->cursor);
    const Completions found = editor.completer_ && editor.first_ ? editor.completer_(before) : Completions{};
    if (found.words.empty()) return CC_REFRESH_BEEP;
    const std::string typed = before.substr(std::min(found.begin, before.size()));
    std::string text = common_start(found.words);
    if (found.words.size() == 1 && !text.ends_with('/')) text += ' ';
    if (text != typed && text.size() >= typed.size()) {
      el_deletestr(edit, static_cast<int>(core::utf8_length(typed)));
      el_insertstr(edit, text.c_str());
      return CC_REFRESH;
    }
    std::string list = "\r\n";
    for (const char c : in_columns(found.words, std::max(terminal_columns(), 1)))
      list += c == '\n' ? "\r\n" : std::string(1, c);
    std::fputs(list.c_str(), stdout);
    return CC_REDISPLAY;
  }

  // Inserts a short paste; stores others and shows a placeholder.
  static unsigned char on_paste(EditLine* edit, int) {
    Editor& editor = self(edit);
    static const std::wstring kEnd = L"\033[201~";
    std::wstring text;
    for (wchar_t c; !text.ends_with(kEnd);) {
      if (read_character(edit, &c) != 1) return CC_EOF;
      text += c == L'\r' ? L'\n' : c;
    }
    text.resize(text.size() - kEnd.size());
    while (text.ends_with(L'\n')) text.pop_back();
    const auto lines = 1 + std::count(text.begin(), text.end(), L'\n');
    if (lines > 1 || text.size() > kShownPaste) {
      editor.pastes_.push_back(to_utf8(text));
      text = L"[paste " + std::to_wstring(editor.pastes_.size()) + L": " + std::to_wstring(lines) +
             (lines == 1 ? L" line]" : L" lines]");
    }
    el_winsertstr(edit, text.c_str());
    return CC_REFRESH;
  }

  static unsigned char on_newline(EditLine* edit, int) {
    self(edit).newline_ = true;
    const LineInfo* info = el_line(edit);
    el_cursor(edit, static_cast<int>(info->lastchar - info->cursor));
    std::fputs("\r\n", stdout);
    return CC_NEWLINE;
  }

  std::string with_pastes(std::string line) const {
    for (size_t i = 0; i < pastes_.size(); ++i) {
      const size_t start = line.find("[paste " + std::to_string(i + 1) + ": ");
      if (start == std::string::npos) continue;
      line.replace(start, line.find(']', start) + 1 - start, pastes_[i]);
    }
    return line;
  }

  static void bracketed_paste(bool on) {
    std::fputs(on ? "\033[?2004h" : "\033[?2004l", stdout);
    std::fflush(stdout);
  }

  EditLine* edit_;
  History* history_;
  std::string path_;
  const InterruptFlag& interrupt_;
  const Completer completer_;
  sigset_t waiting_;
  bool first_ = true, newline_ = false;
  int drawn_width_ = 0,
      drawn_columns_ = 0; // widths at the last full draw; 0: none
  std::vector<std::string> pastes_;
  std::optional<HiddenKeys> hidden_keys_; // between two reads, where an answer is printed
};

LineReader::LineReader(InterruptFlag& interrupt, Completer completer) : interrupt_(interrupt) {
  const char* term = std::getenv("TERM");
  if (stdin_is_terminal() && stdout_is_terminal() && term && std::strcmp(term, "dumb") != 0)
    editor_ = std::make_unique<Editor>(interrupt, std::move(completer));
}

LineReader::~LineReader() = default;

LineReader::Event LineReader::read_line(std::string& line, bool first, bool& continues) {
  if (editor_) return editor_->read(line, first, continues);
  if (stdin_is_terminal()) {
    std::fputs(first ? kPrompt : kContinuation, stdout);
    std::fflush(stdout);
  }
  errno = 0;
  if (std::getline(std::cin, line)) return Event::message;
  if (interrupt_.raised()) {
    std::cin.clear();
    std::clearerr(stdin);
    return Event::interrupted;
  }
  return Event::end_of_input;
}

LineReader::Event LineReader::read(std::string& message) {
  message.clear();
  interrupt_.lower();
  for (bool first = true;; first = false) {
    std::string line;
    bool continues = false;
    const Event event = read_line(line, first, continues);
    if (event == Event::end_of_input && !message.empty()) return Event::message;
    if (event == Event::interrupted) interrupt_.lower();
    if (event != Event::message) return event;
    if (!continues && line.ends_with('\\')) {
      line.pop_back();
      continues = true;
    }
    if (!first) message += '\n';
    message += line;
    if (editor_) editor_->remember(line);
    if (!continues) return Event::message;
  }
}

} // namespace ridge::app
