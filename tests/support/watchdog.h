// Waits for events of other threads or programs, however slow the machine. A watchdog fails the wait, and names the
// event, if it never comes.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <source_location>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace ridge::tests {

// Enough for one core shared by sixteen programs.
inline constexpr std::chrono::minutes kWatchdog{15};

// Usage: while (!there()) if (watchdog.expired()) return false.
class Watchdog {
 public:
  explicit Watchdog(std::string awaited) : awaited_(std::move(awaited)) {}

  bool expired() const {
    if (std::chrono::steady_clock::now() < end_) return false;
    MESSAGE("waited ", kWatchdog.count(), " minutes for ", awaited_);
    return true;
  }

 private:
  std::string awaited_;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + kWatchdog;
};

template <typename Happened>
[[nodiscard]] bool eventually(std::string awaited, const Happened& happened) {
  const Watchdog watchdog(std::move(awaited));
  while (!happened()) {
    if (watchdog.expired()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// The source line names the event.
template <typename Happened>
[[nodiscard]] bool eventually(const Happened& happened, std::source_location at = std::source_location::current()) {
  return eventually(std::string("what ") + at.file_name() + ":" + std::to_string(at.line()) + " waits for", happened);
}

// Ends the program if the guarded call does not return.
class Guard {
 public:
  explicit Guard(std::string awaited)
      : thread_([awaited = std::move(awaited)](const std::stop_token& stop) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any stopped;
          stopped.wait_for(lock, stop, kWatchdog, [] { return false; });
          if (stop.stop_requested()) return;
          std::fprintf(stderr, "waited %d minutes for %s\n", static_cast<int>(kWatchdog.count()), awaited.c_str());
          std::abort();
        }) {}

 private:
  std::jthread thread_;
};

} // namespace ridge::tests
