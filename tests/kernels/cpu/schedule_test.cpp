// Steps of a pass and the threads that run them.
#include "kernels/cpu/executor/schedule.h"

#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

using ridge::kernels::cpu::Schedule;

TEST_CASE("schedule: each item runs once, and never before the steps that it needs are done") {
  for (const int threads : {1, 2, 3, 8, 2}) { // the last: other helpers than before
    Schedule schedule;
    constexpr int kSteps = 60;
    std::vector<std::vector<std::atomic<int>>> runs;
    for (int step = 0; step < kSteps; ++step) runs.emplace_back(step % 4 == 3 ? 0 : 1 + 7 * step % 50);
    std::atomic<int> early{0};
    // Pairs of steps are independent.
    for (int step = 0; step < kSteps; ++step)
      schedule.add(
          step < 2 ? std::set<int64_t>{} : std::set<int64_t>{step / 2 - 1}, {step / 2 + step % 2 * 1000},
          [&runs, step] { return std::ssize(runs[step]); },
          [&, step](int64_t item, int thread) {
            if (thread < 0 || thread >= threads) ++early;
            for (int before = 0; before < step / 2 * 2; ++before)
              for (const auto& count : runs[before])
                if (count != runs[step][item] + 1) ++early;
            ++runs[step][item];
          });
    constexpr int kPasses = 50;
    std::vector<double> seconds(kSteps);
    for (int pass = 0; pass < kPasses; ++pass) schedule.run(threads, pass % 10 == 9 ? &seconds : nullptr);
    CHECK(early == 0);
    for (const auto& items : runs)
      for (const auto& count : items) CHECK(count == kPasses);
    for (const double time : seconds) CHECK(time > 0);
  }
}

TEST_CASE("schedule: independent steps run beside a long one, and a pass ends with more threads than processors") {
  // One thread's item lasts until the other has done the rest.
  Schedule schedule;
  std::atomic<bool> taken{false}, others_done{false};
  schedule.add(
      {}, {0}, [] { return 2; },
      [&](int64_t, int thread) {
        if (thread == 0) return taken.wait(false); // until another thread has an item
        taken = true;
        taken.notify_all();
        others_done.wait(false);
      });
  schedule.add(
      {}, {1}, [] { return 1; },
      [&](int64_t, int) {
        others_done = true;
        others_done.notify_all();
      });
  schedule.run(2);
  CHECK(others_done);
  // More threads than a step has items, on however few processors.
  Schedule many;
  std::atomic<int> sum{0};
  for (int step = 0; step < 300; ++step)
    many.add(
        {0}, {0}, [] { return 1; }, [&](int64_t, int) { ++sum; });
  for (int pass = 0; pass < 20; ++pass) many.run(64);
  CHECK(sum == 6000);
}
