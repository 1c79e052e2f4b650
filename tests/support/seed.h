// One seed per run; main.cpp prints how to repeat a failure.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <random>

namespace ridge::tests {

struct RunSeed {
  uint64_t value = std::random_device{}();
  std::atomic<uint64_t> drawn = 0;

  RunSeed() {
    if (const char* wanted = std::getenv("RIDGE_SEED")) value = std::strtoull(wanted, nullptr, 10);
  }
};

inline RunSeed& run_seed() {
  static RunSeed seed;
  return seed;
}

// The run's seed (RIDGE_SEED), incremented by each call in a test case.
inline uint64_t fresh_seed() {
  RunSeed& run = run_seed();
  return run.value + run.drawn++;
}

} // namespace ridge::tests
