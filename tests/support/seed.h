// Where tests get their random numbers from: one seed for each run, which main.cpp prints with the command that repeats
// a failure.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <random>

namespace ridge::tests {

struct RunSeed {
  uint64_t value = std::random_device{}();
  std::atomic<uint64_t> drawn = 0; // by the test case that runs

  RunSeed() {
    if (const char* wanted = std::getenv("RIDGE_SEED")) value = std::strtoull(wanted, nullptr, 10);
  }
};

inline RunSeed& run_seed() {
  static RunSeed seed;
  return seed;
}

// A fresh seed each run: that of the run, which RIDGE_SEED sets, and further ones where a test case asks again.
inline uint64_t fresh_seed() {
  RunSeed& run = run_seed();
  return run.value + run.drawn++;
}

} // namespace ridge::tests
