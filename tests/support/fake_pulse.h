// tests/support/fake_pulse.cpp, as the test programs load it.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace ridge::tests {

// Whatever loads libpulse-simple.so.0 by its name afterwards gets it, too.
class FakePulse {
 public:
  // `way`: empty, "fails" or "stops".
  explicit FakePulse(const char* way = "") : library_(::dlopen(RIDGE_FAKE_PULSE_LIBRARY, RTLD_NOW)) {
    if (!library_) throw std::runtime_error(::dlerror());
    ::setenv("RIDGE_FAKE_PULSE", way, 1);
  }
  ~FakePulse() { ::unsetenv("RIDGE_FAKE_PULSE"); }

  int64_t samples() const { return *counter("fake_pulse_samples"); }
  // Waits until so many more samples than `before` were given.
  void wait_for(int64_t more, int64_t before) const {
    while (samples() < before + more) std::this_thread::yield();
  }
  void wait_for_end() const {
    while (*counter("fake_pulse_streams") > 0) std::this_thread::yield();
  }

 private:
  const std::atomic<int64_t>* counter(const char* name) const {
    return static_cast<const std::atomic<int64_t>*>(::dlsym(library_, name));
  }
  void* library_;
};

} // namespace ridge::tests
