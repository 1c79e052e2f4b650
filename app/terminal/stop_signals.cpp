#include "app/terminal/stop_signals.h"

#include "app/terminal/streams.h"

#include <thread>
#include <unistd.h>
#include <utility>

namespace ridge::app {
namespace {

constexpr int kInterruptedStatus = 130; // a shell's status after Ctrl-C

} // namespace

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

void StopSignals::call_at_stop(std::function<void()> stop) {
  std::thread([this, stop = std::move(stop)] {
    int signal = 0;
    sigwait(&signals_, &signal);
    {
      const std::scoped_lock lock(mutex_);
      if (over_) return;
      stop();
    }
    sigwait(&signals_, &signal);
    drain_stderr();
    _exit(kInterruptedStatus);
  }).detach();
}

void StopSignals::end() {
  const std::scoped_lock lock(mutex_);
  over_ = true;
}

} // namespace ridge::app
