#pragma once

#include "core/ceiling.h"

#include <vector>

namespace ridge::kernels::cpu {

// threads 0: all cores. About 4 s. Throws std::bad_alloc without 2 GB.
std::vector<core::Ceiling> measure_ceilings(int threads);

// Int8 products and f32 multiply-adds only; 0.1 s.
std::vector<core::Ceiling> measure_rates(int threads);

} // namespace ridge::kernels::cpu
