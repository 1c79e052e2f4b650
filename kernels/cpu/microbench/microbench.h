// The ceilings of this CPU: bandwidths of memory and caches, arithmetic rates and what a meeting of its threads costs.
#pragma once

#include "core/ceiling.h"

#include <vector>

namespace ridge::kernels::cpu {

// With `threads` threads (0: all cores) together. Some four seconds. Throws std::bad_alloc without 2 GB of memory.
std::vector<core::Ceiling> measure_ceilings(int threads);

// The int8 products that prompts are multiplied with, and the f32 multiply-adds; a part of the above, some 0.1 s.
std::vector<core::Ceiling> measure_rates(int threads);

} // namespace ridge::kernels::cpu
