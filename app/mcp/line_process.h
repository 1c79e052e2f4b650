// A program that is spoken to in lines, through its standard streams.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace ridge::app {

class LineProcess {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;
  // No shell reads `command`. The program is in a group of its own, so that Ctrl-C on the terminal is not for it, and
  // has no other files of this process. Throws Error where it does not start; `name` stands for it.
  LineProcess(std::string name, const std::vector<std::string>& command, const Environment& environment,
              const std::string& folder);
  // Closes its input, at which it should end. One that does not is ended, with all that it has started.
  ~LineProcess();
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  // The line is written while the next one is read. Throws Error for one of more than kMostBytes.
  void send(std::string_view line);
  void close_input();

  enum class Event : uint8_t { line, ended, late, cancelled };
  // The next line, without its end. `late`: none came until `deadline`. Lines of more than kMostBytes are errors.
  Event read(std::string& line, std::chrono::steady_clock::time_point deadline, const std::atomic<bool>* cancel);

  bool running() const { return pid_ > 0; }
  // How it ended, and the last thing that it wrote to its standard error: "ended with status 1: no such module".
  std::string last_words() const;

  static constexpr size_t kMostBytes = 16 << 20;

 private:
  bool pump(int wait_ms);
  void take_errors(std::string_view bytes);
  void reap(bool wait);

  const std::string name_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1; // its streams
  std::string to_write_, read_, error_line_, last_error_;
  size_t looked_ = 0; // bytes of read_ that have no end of a line
  int status_ = 0;
};

} // namespace ridge::app
