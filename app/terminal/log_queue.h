// A queue of log lines with a writer thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

namespace ridge::app {

// Adding never blocks or fails. Lines that do not fit or cannot be written are dropped; a later line reports their
// number. Thread-safe.
class LogQueue {
 public:
  static constexpr size_t kMaxBytes = size_t{1} << 20;

  // `file` stays open until the process ends. `most_bytes`: waiting lines with 64 bytes of overhead each.
  explicit LogQueue(int file, size_t most_bytes = kMaxBytes);
  ~LogQueue(); // does not wait for a blocked write
  LogQueue(const LogQueue&) = delete;
  LogQueue& operator=(const LogQueue&) = delete;

  void add(std::string_view text) noexcept; // whole lines
  // Waits until the queue is empty; returns false after `patience`.
  bool drain(std::chrono::milliseconds patience) noexcept;

 private:
  struct State;
  const std::shared_ptr<State> state_; // shared with the thread
};

} // namespace ridge::app
