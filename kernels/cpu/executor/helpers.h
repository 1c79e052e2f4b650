// Threads beside the calling one. Work never waits for a helper that has no processor, because only helpers that
// entered can hold it up: on a busy machine any barrier of all threads would last until the scheduler's next time
// slice.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace ridge::kernels::cpu {

class Helpers {
 public:
  // `help(thread)` runs while work is open, from thread 1 on. It returns the value of `news` at which it found nothing
  // to do; the helper comes back when `news` changes. Starts fewer helpers if the system has no more threads.
  Helpers(int count, std::atomic<uint32_t>& news, std::function<uint32_t(int thread)> help);
  ~Helpers(); // sets `news` to its largest value
  Helpers(const Helpers&) = delete;

  int wanted() const { return wanted_; }
  void open() { inside_.fetch_and(~kClosed, std::memory_order_acq_rel); }
  void close(); // returns when no helper is inside

 private:
  static constexpr uint32_t kClosed = 1u << 31;

  void serve(int thread);

  const int wanted_;
  std::atomic<uint32_t>& news_;
  const std::function<uint32_t(int)> help_;
  alignas(64) std::atomic<uint32_t> inside_{kClosed}; // also counts those that find it closed, for a moment
  std::atomic<bool> ended_{false};
  std::vector<std::jthread> threads_;
};

// Spins for about a small op; false: `value` did not change.
bool changes_soon(const std::atomic<uint32_t>& value, uint32_t from);

} // namespace ridge::kernels::cpu
