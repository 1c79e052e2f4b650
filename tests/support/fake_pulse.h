// tests/support/fake_pulse.cpp, as test programs load it.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <thread>

namespace ridge::tests {

// Whatever loads libpulse-simple.so.0 by its name afterwards gets it, too.
class FakePulse {
 public:
  // `stops` and `waits` give the first samples only; `waits` until the next way().
  enum Way { works, fails, stops, waits };

  explicit FakePulse(Way first = works) : library_(::dlopen(RIDGE_FAKE_PULSE_LIBRARY, RTLD_NOW)) {
    if (!library_) throw std::runtime_error(::dlerror());
    way(first);
  }
  ~FakePulse() { way(works); }

  void way(Way next) const { *found<std::atomic<int>>("fake_pulse_way") = next; }
  int64_t samples() const { return *found<std::atomic<int64_t>>("fake_pulse_samples"); }
  // Waits until so many more samples than `before` were given.
  void wait_for(int64_t more, int64_t before) const {
    while (samples() < before + more) std::this_thread::yield();
  }
  void wait_for_end() const {
    while (*found<std::atomic<int64_t>>("fake_pulse_streams") > 0) std::this_thread::yield();
  }

 private:
  template <typename T>
  T* found(const char* name) const {
    return static_cast<T*>(::dlsym(library_, name));
  }
  void* library_;
};

} // namespace ridge::tests
