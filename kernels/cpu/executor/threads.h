#pragma once

#include <string>
#include <vector>

namespace ridge::kernels::cpu {

struct Processors {
  int usable = 1; // logical processors available
  int cores = 1;
  double limit = 0; // by control groups; 0: none
  bool hybrid = false;

  // One per core, since sibling threads share execution units; at most the rounded limit (with 1.5, two threads do 1.5
  // times the work of one).
  int threads() const;
};

// `root` replaces / in tests.
Processors find_processors(const std::vector<int>& usable, const std::string& root = "");
const Processors& processors();
inline int default_threads() { return processors().threads(); }

} // namespace ridge::kernels::cpu
