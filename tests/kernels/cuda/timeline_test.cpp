// Time stamps of blocks, simulated.
#include "kernels/cuda/runtime/timeline.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <stdexcept>
#include <vector>

using namespace ridge::kernels::cuda;

namespace {

struct Block {
  Stamp starts, predecessor_done, input_loaded, ends; // ns
};

struct Run {
  LaunchLog log;
  std::vector<Stamp> stamps;

  void kernel(size_t step, std::initializer_list<Block> blocks) {
    constexpr Stamp kSince = 1'700'000'000'000'000'000; // exceeds a double's digits
    log.step = step;
    log.add(blocks.size());
    for (const Block& b : blocks)
      for (const Stamp time : {b.starts, b.predecessor_done, b.input_loaded, b.ends})
        stamps.push_back(time == 0 ? 0 : kSince + time);
  }
  std::vector<StepsTime> times(size_t steps) const { return times_of_steps(log, stamps, steps); }
};

void check(const StepsTime& time, size_t end_step, double seconds, double waiting, double start_delay,
           double end_spread) {
  CHECK(time.end_step == end_step);
  CHECK(time.seconds * 1e9 == doctest::Approx(seconds));
  CHECK(time.waiting * 1e9 == doctest::Approx(waiting));
  CHECK(time.start_delay * 1e9 == doctest::Approx(start_delay));
  CHECK(time.end_spread * 1e9 == doctest::Approx(end_spread));
}

} // namespace

TEST_CASE("a step counts from the end of the one before to its last block's, and waits until its input is there") {
  Run run;
  run.kernel(0, {{1000, 1100, 0, 2000}, {1200, 1300, 0, 3000}});
  run.kernel(1, {{2100, 3200, 3600, 5000}, {2500, 3200, 4000, 4400}});
  run.kernel(2, {{5300, 5400, 0, 6000}});
  const std::vector<StepsTime> times = run.times(3);
  REQUIRE(times.size() == 3);
  check(times[0], 1, 2000, 200, 0, 1000);
  check(times[1], 2, 2000, 800, -900, 600);
  check(times[2], 3, 1000, 400, 300, 0);
}

TEST_CASE("kernels of one step go together, and blocks that left without doing anything do not count") {
  Run run;
  run.kernel(0, {{1000, 1000, 0, 2000}});
  run.kernel(1, {{1500, 2100, 0, 2600}, {1400, 2100, 0, 0}});
  run.kernel(1, {{2500, 2700, 0, 2900}, {2500, 2700, 0, 3000}});
  const std::vector<StepsTime> times = run.times(2);
  REQUIRE(times.size() == 2);
  check(times[1], 2, 1000, 200, -500, 100);
}

TEST_CASE("a step without a kernel or without stamps counts to the next, at the end to the last") {
  Run run; // step 1 is part of step 2's kernel; step 3's kernel has no stamps; step 6 has no kernel
  run.kernel(0, {{1000, 1000, 0, 2000}});
  run.kernel(2, {{1500, 2500, 0, 4000}});
  run.kernel(3, {{0, 0, 0, 0}, {0, 0, 0, 0}});
  run.kernel(4, {{5000, 7000, 0, 8000}});
  run.kernel(5, {{7500, 8100, 0, 9000}});
  const std::vector<StepsTime> times = run.times(7);
  REQUIRE(times.size() == 4);
  check(times[0], 1, 1000, 0, 0, 0);
  check(times[1], 3, 2000, 500, -500, 0);
  check(times[2], 5, 4000, 3000, 1000, 0);
  check(times[3], 7, 1000, 100, -500, 0);

  Run silent;
  silent.kernel(0, {{0, 0, 0, 0}});
  CHECK_THROWS_AS(silent.times(1), std::logic_error);
}

TEST_CASE("no time is negative where a kernel's input was there before its turn") {
  Run run;
  run.kernel(0, {{1000, 1000, 0, 3000}});
  run.kernel(1, {{1000, 1500, 1800, 2990}});
  run.kernel(2, {{1100, 1600, 1900, 3500}});
  const std::vector<StepsTime> times = run.times(3);
  REQUIRE(times.size() == 3);
  check(times[1], 2, 0, 0, -2000, 0);
  check(times[2], 3, 500, 0, -1900, 0);
}
