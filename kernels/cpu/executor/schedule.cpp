#include "kernels/cpu/executor/schedule.h"

#include "core/clock.h"

#include <algorithm>
#include <utility>

namespace ridge::kernels::cpu {

void Schedule::add(const std::set<Resource>& reads, const std::set<Resource>& writes, std::function<int64_t()> items,
                   std::function<void(int64_t, int)> run) {
  const auto touches = [](const std::set<Resource>& mine, const std::set<Resource>& theirs) {
    return std::any_of(mine.begin(), mine.end(), [&](Resource r) { return theirs.contains(r); });
  };
  const bool conflicts = touches(reads, written_) || touches(writes, written_) || touches(writes, read_);
  if (conflicts) {
    read_.clear();
    written_.clear();
  }
  read_.insert(reads.begin(), reads.end());
  written_.insert(writes.begin(), writes.end());
  steps_.emplace_back(conflicts, label_, std::move(items), std::move(run));
}

void Schedule::make_phases(bool single_steps) {
  phases_.clear();
  for (size_t first = 0, last = 0; first < steps_.size(); first = last) {
    do ++last;
    while (last < steps_.size() && !single_steps && !steps_[last].conflicts);
    phases_.emplace_back(first, last);
  }
}

void Schedule::work(uint32_t number, int thread) {
  Phase& phase = phases_[number];
  for (size_t i = phase.first; i < phase.last; ++i) {
    Step& step = steps_[i];
    const int64_t items = step.items();
    int64_t done = 0;
    // One more, which is empty, so that a step without items is done by a thread, too.
    for (int64_t item; (item = step.next.fetch_add(1, std::memory_order_relaxed)) <= items; ++done)
      if (item < items) step.run(item, thread);
    if (done == 0 || step.done.fetch_add(done, std::memory_order_acq_rel) + done <= items) continue;
    if (phase.undone.fetch_sub(1, std::memory_order_acq_rel) > 1) continue;
    // Sequentially consistent: notify_all() checks for sleepers first, and a release store may become visible after
    // that check. A thread that falls asleep in between would never wake.
    phase_.store(number + 1, std::memory_order_seq_cst);
    phase_.notify_all();
  }
}

void Schedule::run(int threads, std::vector<double>* seconds) {
  if (!helpers_ || helpers_->wanted() != threads - 1)
    helpers_ = std::make_unique<Helpers>(threads - 1, phase_, [this](int thread) {
      for (;;) {
        const uint32_t phase = phase_.load(std::memory_order_acquire);
        if (phase >= phases_.size()) return phase;
        work(phase, thread);
        if (!changes_soon(phase_, phase)) return phase;
      }
    });
  make_phases(seconds != nullptr);
  for (Step& step : steps_) {
    step.next.store(0, std::memory_order_relaxed);
    step.done.store(0, std::memory_order_relaxed);
  }
  phase_.store(0, std::memory_order_seq_cst);
  helpers_->open();
  phase_.notify_all();
  double last = core::seconds_now();
  for (uint32_t phase = 0; phase < phases_.size(); ++phase) {
    work(phase, 0);
    if (!changes_soon(phase_, phase)) phase_.wait(phase, std::memory_order_acquire);
    if (seconds) (*seconds)[phase] += core::seconds_now() - std::exchange(last, core::seconds_now());
  }
  helpers_->close();
}

} // namespace ridge::kernels::cpu
