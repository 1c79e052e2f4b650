// Ctrl-C and SIGTERM for a program that serves: the first one lets it end what it does, a second one leaves at once.
#pragma once

#include <csignal>
#include <functional>
#include <mutex>

namespace ridge::app {

// All threads that start while one of these lives leave the two signals to it. One for a process, to its end.
class StopSignals {
 public:
  StopSignals();
  // From now on the first signal calls `stop`; once.
  void call_at_stop(std::function<void()> stop);
  // Nothing is to be stopped any more, and what `stop` uses may go.
  void end();

 private:
  sigset_t signals_;
  std::mutex mutex_;
  bool over_ = false;
};

} // namespace ridge::app
