// Waiting for what another thread or program does. Tests wait for events, however long they take on a busy machine. The
// watchdog ends those whose event does not come, and says which one that is.
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

// Long enough for whatever comes at all, on one core that sixteen programs want.
inline constexpr std::chrono::minutes kWatchdog{15};

// For a loop that waits: while (!there()) if (watchdog.bites()) return false.
class Watchdog {
 public:
  explicit Watchdog(std::string awaited) : awaited_(std::move(awaited)) {}

  bool bites() const {
    if (std::chrono::steady_clock::now() < end_) return false;
    MESSAGE("waited ", kWatchdog.count(), " minutes for ", awaited_);
    return true;
  }

 private:
  std::string awaited_;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + kWatchdog;
};

// Whether `happened` becomes true, as it does but for a bug. For CHECK and REQUIRE, which say where.
template <typename Happened>
[[nodiscard]] bool comes(std::string awaited, const Happened& happened) {
  const Watchdog watchdog(std::move(awaited));
  while (!happened()) {
    if (watchdog.bites()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2)); // until the next look
  }
  return true;
}

// The same where the line says what is awaited.
template <typename Happened>
[[nodiscard]] bool comes(const Happened& happened, std::source_location at = std::source_location::current()) {
  return comes(std::string("what ") + at.file_name() + ":" + std::to_string(at.line()) + " waits for", happened);
}

// Around a call that returns but for a bug: ends the program, with what it was waiting for, where it does not.
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
