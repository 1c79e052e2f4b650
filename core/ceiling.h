// A machine's limits, measured by kernels/cpu/microbench and kernels/cuda/microbench.
#pragma once

#include <string>
#include <vector>

namespace ridge::core {

struct Ceiling {
  enum class Unit { bytes_per_second, operations_per_second, seconds }; // a multiply-add is two
  std::string name;                                                     // "dram_read", "tensor_f16", "grid_barrier"
  Unit unit;
  double value;
  std::string how; // "2 GiB in 16-byte loads"
};

inline const Ceiling* find_ceiling(const std::vector<Ceiling>& ceilings, const std::string& name) {
  for (const Ceiling& c : ceilings)
    if (c.name == name) return &c;
  return nullptr;
}

} // namespace ridge::core
