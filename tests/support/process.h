// Runs programs with pipes or on a pseudo-terminal.
#pragma once

#include "support/watchdog.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <pty.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ridge::tests {

struct Result {
  int status;
  std::string out, err;
};

inline int exit_status_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// Kills the program on timeout.
inline int wait_for(pid_t pid) {
  int status = 0;
  if (!eventually("a program to end", [&] { return ::waitpid(pid, &status, WNOHANG) == pid; })) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
  }
  return exit_status_of(status);
}

// Until it is reaped.
inline int64_t written_by(pid_t pid) {
  std::ifstream io("/proc/" + std::to_string(pid) + "/io");
  int64_t bytes = 0;
  for (std::string name; io >> name >> bytes;)
    if (name == "wchar:") return bytes;
  return 0;
}

[[noreturn]] inline void exec(const std::vector<std::string>& args) {
  std::vector<char*> argv;
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

inline Result run(const std::vector<std::string>& args, const std::string& input = "") {
  int in[2], out[2], err[2];
  // Not inherited by other threads' children.
  REQUIRE((::pipe2(in, O_CLOEXEC) == 0 && ::pipe2(out, O_CLOEXEC) == 0 && ::pipe2(err, O_CLOEXEC) == 0));
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    ::dup2(in[0], 0), ::dup2(out[1], 1), ::dup2(err[1], 2);
    for (int fd : {in[0], in[1], out[0], out[1], err[0], err[1]}) ::close(fd);
    exec(args);
  }
  ::close(in[0]), ::close(out[1]), ::close(err[1]);
  std::signal(SIGPIPE, SIG_IGN);
  size_t sent = 0;
  Result result;
  pollfd fds[] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}, {in[1], POLLOUT, 0}};
  if (input.empty()) ::close(std::exchange(fds[2].fd, -1));
  const Watchdog watchdog("a program to end: " + args[0] + " " + (args.size() > 1 ? args[1] : ""));
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (::poll(fds, 3, 1000) == 0 && watchdog.expired()) {
      ::kill(pid, SIGKILL);
      break;
    }
    if (fds[2].fd >= 0 && fds[2].revents) {
      const ssize_t n = ::write(fds[2].fd, input.data() + sent, input.size() - sent);
      if (n > 0) sent += static_cast<size_t>(n);
      if (n < 0 || sent == input.size()) ::close(std::exchange(fds[2].fd, -1));
    }
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || !fds[i].revents) continue;
      char buffer[4096];
      const ssize_t n = ::read(fds[i].fd, buffer, sizeof buffer);
      if (n > 0) (i == 0 ? result.out : result.err).append(buffer, static_cast<size_t>(n));
      if (n <= 0) ::close(std::exchange(fds[i].fd, -1));
    }
  }
  if (fds[2].fd >= 0) ::close(fds[2].fd);
  result.status = wait_for(pid);
  return result;
}

class Terminal {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  Terminal(const std::vector<std::string>& args, const Environment& environment, unsigned short columns = 120) {
    winsize size = {24, columns, 0, 0};
    pid_ = ::forkpty(&fd_, nullptr, nullptr, &size);
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      exec(args);
    }
  }
  ~Terminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait_for(pid_);
    }
    ::close(fd_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) {
    REQUIRE(::write(fd_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
  }
  void resize(unsigned short rows, unsigned short cols) {
    const winsize size = {rows, cols, 0, 0};
    REQUIRE(::ioctl(fd_, TIOCSWINSZ, &size) == 0);
  }

  // Waits for `text` after the last match, and consumes up to its end.
  bool expect(const std::string& text) {
    const Watchdog watchdog("the terminal to show \"" + text + "\"");
    while (true) {
      if (const size_t at = seen_.find(text, read_); at != std::string::npos) {
        read_ = at + text.size();
        return true;
      }
      if (!pump() || watchdog.expired()) {
        MESSAGE("expected \"", text, "\", the terminal has: ", unread());
        return false;
      }
    }
  }

  bool expect_more() {
    const Watchdog watchdog("the terminal to show more");
    while (seen_.size() == read_)
      if (!pump() || watchdog.expired()) return false;
    read_ = seen_.size();
    return true;
  }

  int exit_status() {
    const Watchdog watchdog("the program on the terminal to end");
    while (pump())
      if (watchdog.expired()) return -1;
    return wait_for(std::exchange(pid_, -1));
  }

  bool shows_keys() const {
    termios settings = {};
    REQUIRE(::tcgetattr(fd_, &settings) == 0);
    return (settings.c_lflag & ECHO) != 0;
  }

  const std::string& seen() const { return seen_; }
  std::string unread() const { return seen_.substr(read_); }

 private:
  bool pump() {
    pollfd fd = {fd_, POLLIN, 0};
    if (::poll(&fd, 1, 100) <= 0) return true;
    char buffer[4096];
    const ssize_t n = ::read(fd_, buffer, sizeof buffer);
    if (n <= 0) return false;
    seen_.append(buffer, static_cast<size_t>(n));
    return true;
  }

  int fd_ = -1;
  pid_t pid_ = -1;
  std::string seen_;
  size_t read_ = 0;
};

} // namespace ridge::tests
