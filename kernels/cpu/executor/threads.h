// How many threads the CPU's work is worth.
#pragma once

#include <string>
#include <vector>

namespace ridge::kernels::cpu {

struct Processors {
  int usable = 1;      // logical ones that this process may run on
  int cores = 1;       // they are of so many
  double limit = 0;    // of control groups, in processors' time; 0: none
  bool hybrid = false; // cores of two kinds

  // One per core, because two threads of one core share what multiplies and what loads; at most the nearest whole
  // number of the limit: with 1.5, two threads do half as much again as one, and stand still a quarter of the time.
  int threads() const;
};

// Those of `usable`, by what the system's files under `root` say.
Processors find_processors(const std::vector<int>& usable, const std::string& root = "");
// Those of this process, when it asked first.
const Processors& processors();
inline int default_threads() { return processors().threads(); }

} // namespace ridge::kernels::cpu
