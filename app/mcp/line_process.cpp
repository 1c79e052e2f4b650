#include "app/mcp/line_process.h"

#include "core/error.h"
#include "core/strings/printable.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern char** environ;

namespace ridge::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCancelCheckMs = 50;
constexpr size_t kMaxErrorBytes = 2000;
constexpr auto kGracePeriod = std::chrono::seconds(2); // after closing its input, and after SIGTERM

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> with_environment(const LineProcess::Environment& others) {
  std::vector<std::string> all;
  for (char** each = environ; *each; ++each) {
    const std::string_view variable = *each, name = variable.substr(0, variable.find('='));
    if (std::ranges::none_of(others, [&](const auto& other) { return other.first == name; })) all.emplace_back(*each);
  }
  for (const auto& [name, value] : others) all.push_back(name + "=" + value);
  return all;
}

void close_once(int& file) {
  if (file >= 0) ::close(std::exchange(file, -1));
}

} // namespace

LineProcess::LineProcess(std::string name, const std::vector<std::string>& command, const Environment& environment,
                         const std::string& folder)
    : name_(std::move(name)) {
  int in[2], out[2], err[2];
  // A socket, because writing to a pipe without a reader raises SIGPIPE.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) throw_error("{}: {}", name_, std::strerror(errno));
  in_ = in[0];
  if (::pipe2(out, O_CLOEXEC) != 0) {
    ::close(in[0]), ::close(in[1]);
    throw_error("{}: {}", name_, std::strerror(errno));
  }
  if (::pipe2(err, O_CLOEXEC) != 0) {
    for (const int file : {in[0], in[1], out[0], out[1]}) ::close(file);
    throw_error("{}: {}", name_, std::strerror(errno));
  }
  out_ = out[0], err_ = err[0];

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[1], 0);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  ::posix_spawn_file_actions_adddup2(&actions, err[1], 2);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  if (!folder.empty()) ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, usual;
  ::sigemptyset(&none);
  ::sigfillset(&usual);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> words = command, variables = with_environment(environment);
  const int problem = ::posix_spawnp(&pid_, words[0].c_str(), &actions, &attributes, pointers(words).data(),
                                     pointers(variables).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  for (const int file : {in[1], out[1], err[1]}) ::close(file);
  if (problem != 0) {
    pid_ = -1;
    for (int* file : {&in_, &out_, &err_}) close_once(*file);
    throw_error("{}: {} did not start{}: {}", name_, core::printable(command[0], 200),
                folder.empty() ? "" : " in " + core::printable(folder, 200), std::strerror(problem));
  }
  for (const int file : {in_, out_, err_}) ::fcntl(file, F_SETFL, O_NONBLOCK);
}

LineProcess::~LineProcess() {
  close_input();
  const auto ends = [&] {
    const auto until = Clock::now() + kGracePeriod;
    while (running() && Clock::now() < until) {
      pump(kCancelCheckMs); // keeps the process from blocking
      reap(false);
    }
    return !running();
  };
  for (const int signal : {SIGTERM, SIGKILL})
    if (!ends()) ::kill(-pid_, signal);
  reap(true);
  for (int* file : {&out_, &err_}) close_once(*file);
}

void LineProcess::send(std::string_view line, bool) {
  if (to_write_.size() + line.size() > kMaxBytes) throw_error("{}: the message to send is too long", name_);
  to_write_ += line;
  to_write_ += '\n';
}

void LineProcess::close_input() { close_once(in_); }

// Waits at most wait_ms. Returns false when the output is closed.
bool LineProcess::pump(int wait_ms) {
  pollfd files[] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}, {to_write_.empty() ? -1 : in_, POLLOUT, 0}};
  if (out_ < 0 && err_ < 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return false;
  }
  if (::poll(files, 3, wait_ms) <= 0) return out_ >= 0;
  if (files[2].revents) {
    const ssize_t sent = ::send(in_, to_write_.data(), to_write_.size(), MSG_NOSIGNAL);
    if (sent > 0) to_write_.erase(0, static_cast<size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) to_write_.clear(), close_input();
  }
  char buffer[65536];
  if (files[1].revents) {
    const ssize_t got = ::read(err_, buffer, sizeof buffer);
    if (got > 0) take_errors({buffer, static_cast<size_t>(got)});
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) close_once(err_);
  }
  if (files[0].revents) {
    const ssize_t got = ::read(out_, buffer, sizeof buffer);
    if (got > 0) read_.append(buffer, static_cast<size_t>(got));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) close_once(out_);
  }
  return out_ >= 0;
}

void LineProcess::take_errors(std::string_view bytes) {
  for (const char c : bytes) {
    if (c != '\n') {
      if (error_line_.size() < kMaxErrorBytes) error_line_ += c;
      continue;
    }
    if (error_line_.find_first_not_of(" \t\r") != std::string::npos) last_error_ = error_line_;
    error_line_.clear();
  }
}

McpChannel::Event LineProcess::read(std::string& line, Clock::time_point deadline, const std::atomic<bool>* cancel) {
  while (true) {
    if (cancel && cancel->load()) return Event::cancelled; // first: lines may never cease
    if (const size_t end = read_.find('\n', looked_); end != std::string::npos) {
      line = read_.substr(0, end);
      if (line.ends_with('\r')) line.pop_back();
      read_.erase(0, end + 1);
      looked_ = 0;
      return Event::message;
    }
    looked_ = read_.size();
    if (read_.size() > kMaxBytes) throw_error("{}: sent a line of more than {} MiB", name_, kMaxBytes >> 20);
    if (out_ < 0) {
      close_input();
      const auto until = Clock::now() + kGracePeriod;
      while ((err_ >= 0 || running()) && Clock::now() < until) {
        pump(kCancelCheckMs);
        reap(false);
      }
      return Event::ended;
    }
    if (Clock::now() >= deadline) return Event::late;
    pump(kCancelCheckMs);
  }
}

// Ends its process group when the program has ended.
void LineProcess::reap(bool wait) {
  if (pid_ <= 0) return;
  siginfo_t info = {};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT | (wait ? 0 : WNOHANG)) != 0) return;
  if (info.si_pid != pid_) return;
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, &status_, 0);
  pid_ = -1;
}

std::string LineProcess::exit_summary() const {
  std::string how = "closed its output";
  if (!running() && WIFEXITED(status_)) how = fmt::format("ended with status {}", WEXITSTATUS(status_));
  if (!running() && WIFSIGNALED(status_)) how = fmt::format("was killed by signal {}", WTERMSIG(status_));
  const std::string& last = error_line_.find_first_not_of(" \t\r") != std::string::npos ? error_line_ : last_error_;
  return last.empty() ? how : fmt::format("{}: {}", how, core::printable(last, 300));
}

} // namespace ridge::app
