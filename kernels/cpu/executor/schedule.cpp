#include "kernels/cpu/executor/schedule.h"

#include "core/clock.h"

#include <hwy/cache_control.h>
#include <omp.h>

#include <algorithm>
#include <utility>

namespace ridge::kernels::cpu {
namespace {

HWY_INLINE void pause() {
#ifdef __aarch64__ // some ten ns, as x86's; `yield` takes none
  asm volatile("isb");
#else
  hwy::Pause();
#endif
}

// OpenMP's barrier spins for milliseconds and takes cores from the threads it waits for. This one spins for about a
// small op, then sleeps.
class Barrier {
 public:
  void wait(int team) {
    const uint32_t phase = phase_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == team) {
      arrived_.store(0, std::memory_order_relaxed);
      // Sequentially consistent: notify_all() checks for sleepers first, and a release store may become visible after
      // that check. A thread that falls asleep in between would never wake.
      phase_.store(phase + 1, std::memory_order_seq_cst);
      phase_.notify_all();
      return;
    }
    for (int spin = 0; spin < kSpins; ++spin) {
      if (phase_.load(std::memory_order_acquire) != phase) return;
      pause();
    }
    phase_.wait(phase, std::memory_order_acquire);
  }

 private:
  static constexpr int kSpins = 2000; // 20 to 50 µs
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
};

} // namespace

void Schedule::add(const std::set<Resource>& reads, const std::set<Resource>& writes, std::function<int64_t()> items,
                   std::function<void(int64_t, int)> run) {
  const auto touches = [](const std::set<Resource>& mine, const std::set<Resource>& theirs) {
    return std::any_of(mine.begin(), mine.end(), [&](Resource r) { return theirs.contains(r); });
  };
  const bool barrier = touches(reads, written_) || touches(writes, written_) || touches(writes, read_);
  if (barrier) {
    read_.clear();
    written_.clear();
  }
  read_.insert(reads.begin(), reads.end());
  written_.insert(writes.begin(), writes.end());
  steps_.emplace_back(barrier, label_, std::move(items), std::move(run));
}

void Schedule::run(int threads, std::vector<double>* seconds) {
  for (Step& step : steps_) step.next.store(0, std::memory_order_relaxed);
  Barrier barrier;
#pragma omp parallel num_threads(threads)
  {
    // may be fewer than requested (OMP_THREAD_LIMIT, OMP_DYNAMIC, nested regions)
    const int thread = omp_get_thread_num(), team = omp_get_num_threads();
    double last = core::seconds_now();
    for (size_t i = 0; i < steps_.size(); ++i) {
      Step& step = steps_[i];
      if (step.barrier || seconds) barrier.wait(team);
      const int64_t items = step.items();
      for (int64_t item; (item = step.next.fetch_add(1, std::memory_order_relaxed)) < items;) step.run(item, thread);
      if (!seconds) continue;
      barrier.wait(team);
      if (thread == 0) (*seconds)[i] += core::seconds_now() - std::exchange(last, core::seconds_now());
    }
  }
}

} // namespace ridge::kernels::cpu
