// How many threads suit this machine: what the kernel tells of cores, affinity and control groups.
#pragma once

#include <string>
#include <vector>

namespace ridge::kernels::cpu {

struct Processors {
  int usable = 1; // logical processors available
  int cores = 1;
  int slower = 0;   // of `cores`, efficiency cores and the like
  int left_out = 0; // of `cores`, slower than half of the fastest
  int nodes = 1;    // of memory, with usable processors
  double limit = 0; // by control groups, in processors; 0: none

  // One per core, since sibling threads share execution units; at most the rounded limit (with 1.5, two threads do 1.5
  // times the work of one). A step's first item is half of a thread's share, so cores left out would be waited for.
  int threads() const;
  // For work bound by arithmetic in small pieces: one per processor.
  int worker_threads() const;
  // "8: one per usable core, …"
  std::string description() const;
};

// By the calling thread's affinity.
std::vector<int> usable_processors();
// Those of `usable` at a PCI device's memory node; all if that is unknown. `root` replaces / in tests.
std::vector<int> processors_near(const std::string& bus, const std::vector<int>& usable, const std::string& root = "");
void run_on(const std::vector<int>& processors); // this thread
// `root` replaces / in tests.
Processors find_processors(const std::vector<int>& usable, const std::string& root = "");
const Processors& processors();
inline int default_threads() { return processors().threads(); }

} // namespace ridge::kernels::cpu
