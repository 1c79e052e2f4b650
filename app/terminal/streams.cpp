#include "app/terminal/streams.h"

#include "app/terminal/log_queue.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace ridge::app {
namespace {

std::atomic<LogQueue*> background{nullptr}; // never destroyed: threads may write until the process ends

[[noreturn]] void fail_stdout(int reason) {
  throw OutputError(
      fmt::format("cannot write to stdout{}{}", reason != 0 ? ": " : "", reason != 0 ? std::strerror(reason) : ""));
}

} // namespace

bool open_missing_streams() {
  std::signal(SIGXFSZ, SIG_IGN);
  for (int file = STDIN_FILENO; file <= STDERR_FILENO; ++file)
    if (::fcntl(file, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) != file) return false; // open() returns the lowest
  return true;
}

size_t write_whole(int file, std::string_view text) noexcept {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(file, text.data() + done, text.size() - done);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno == EAGAIN) { // another process made the shared stream non-blocking
      pollfd waits = {file, POLLOUT, 0};
      ::poll(&waits, 1, -1);
    } else if (errno != EINTR) {
      break;
    }
  }
  return done;
}

void write_stdout(std::string_view text) {
  flush_stdout();
  if (write_whole(STDOUT_FILENO, text) < text.size()) fail_stdout(errno);
}

void flush_stdout() {
  errno = 0;
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (failed && errno != EINTR) fail_stdout(errno);
  std::clearerr(stdout);
}

void write_stderr(std::string_view text) noexcept {
  if (LogQueue* queue = background)
    queue->add(text);
  else
    write_whole(STDERR_FILENO, text);
}

void write_stderr_in_background() {
  static LogQueue* const queue = new LogQueue(STDERR_FILENO);
  background = queue;
}

void drain_stderr() noexcept {
  if (LogQueue* queue = background) queue->drain(std::chrono::seconds(1));
}

} // namespace ridge::app
