#include "kernels/cpu/schedule.h"

#include <omp.h>

#include <algorithm>

namespace ridge::kernels::cpu {

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
  steps_.emplace_back(barrier, std::move(items), std::move(run));
}

void Schedule::run(int threads) {
  for (Step& step : steps_) step.next.store(0, std::memory_order_relaxed);
#pragma omp parallel num_threads(threads)
  {
    const int thread = omp_get_thread_num();
    for (Step& step : steps_) {
      if (step.barrier) {
#pragma omp barrier
      }
      const int64_t items = step.items();
      for (int64_t item; (item = step.next.fetch_add(1, std::memory_order_relaxed)) < items;) step.run(item, thread);
    }
  }
}

} // namespace ridge::kernels::cpu
