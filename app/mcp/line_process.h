// A child process with line-based streams.
#pragma once

#include "app/mcp/channel.h"

#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace ridge::app {

class LineProcess : public McpChannel {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;
  // Runs `command` without a shell, in a new process group (so that Ctrl-C does not reach it), without inherited files.
  // Throws Error. `name` appears in messages.
  LineProcess(std::string name, const std::vector<std::string>& command, const Environment& environment,
              const std::string& folder);
  // Closes the program's input, and kills its process group if it does not end.
  ~LineProcess() override;
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  // Queues a line, which read() writes.
  void send(std::string_view line, bool asks = true) override;
  void close_input();

  // The next line without its end.
  Event read(std::string& line, std::chrono::steady_clock::time_point deadline,
             const std::atomic<bool>* cancel) override;

  bool running() const { return pid_ > 0; }
  // With its last line on stderr.
  std::string exit_summary() const override;

 private:
  bool pump(int wait_ms);
  void take_errors(std::string_view bytes);
  void reap(bool wait);

  const std::string name_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  std::string to_write_, read_, error_line_, last_error_;
  size_t looked_ = 0; // bytes of read_ known to hold no line end
  int status_ = 0;
};

} // namespace ridge::app
