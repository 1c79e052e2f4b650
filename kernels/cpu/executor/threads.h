// How many threads to use.
#pragma once

#include <string>
#include <vector>

namespace ridge::kernels::cpu {

struct Processors {
  int usable = 1;      // logical processors available to this process
  int cores = 1;       // physical cores among them
  double limit = 0;    // from control groups, in processors; 0: none
  bool hybrid = false; // two kinds of cores

  // One per core, since sibling threads share the arithmetic and load units, but at most the rounded limit: with a
  // limit of 1.5, two threads are 1.5 times as fast as one and idle a quarter of the time.
  int threads() const;
};

// `root` prefixes /sys and /proc paths (for tests).
Processors find_processors(const std::vector<int>& usable, const std::string& root = "");
// Of this process, determined on the first call.
const Processors& processors();
inline int default_threads() { return processors().threads(); }

} // namespace ridge::kernels::cpu
