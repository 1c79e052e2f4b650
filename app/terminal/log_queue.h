// A queue of log lines that a thread of its own writes. Adding a line never waits for a reader and never fails.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

namespace ridge::app {

// Lines that find the queue full, or that cannot be written, are dropped and counted. As soon as the file takes text
// again, a line in their place says how many there were. All functions may be called by several threads.
class LogQueue {
 public:
  static constexpr size_t kMostBytes = size_t{1} << 20;

  // `file` stays open as long as the process. `most_bytes`: of lines that wait, each with 64 more.
  explicit LogQueue(int file, size_t most_bytes = kMostBytes);
  ~LogQueue(); // does not wait for a write that is stuck
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;

  void add(std::string_view text) noexcept; // whole lines
  // Waits until nothing waits to be written; false where that takes longer.
  bool drain(std::chrono::milliseconds patience) noexcept;

 private:
  struct State;
  const std::shared_ptr<State> state_; // the thread's, too
};

} // namespace ridge::app
