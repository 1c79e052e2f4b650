// Ctrl-C and SIGTERM: the first stops gracefully, the second exits at once.
#pragma once

#include <csignal>
#include <functional>
#include <mutex>

namespace ridge::app {

// Threads started later leave both signals to it. Only one per process.
class StopSignals {
 public:
  StopSignals();
  // The first signal calls `stop` once.
  void call_at_stop(std::function<void()> stop);
  // From now on `stop` is not called.
  void end();

 private:
  sigset_t signals_;
  std::mutex mutex_;
  bool over_ = false;
};

} // namespace ridge::app
