// Ceilings of this GPU.
#pragma once

#include "core/ceiling.h"

#include <vector>

namespace ridge::kernels::cuda {

// A second on an H200. Skips what the chip or the code lacks. Throws Error without a usable GPU or 700 MB of memory.
std::vector<core::Ceiling> measure_ceilings();

// f16 products with f32 sums.
core::Ceiling measure_f16_rate();

} // namespace ridge::kernels::cuda
