// The ceilings of this GPU: bandwidths, arithmetic rates and latencies, each from a kernel that does nothing else.
#pragma once

#include "core/ceiling.h"

#include <vector>

namespace ridge::kernels::cuda {

// About a second on an H200. Leaves out what the GPU, or the code compiled for it, does not have. Throws Error where
// there is no usable GPU or too little free memory (some 700 MB).
std::vector<core::Ceiling> measure_ceilings();

// The fastest way this GPU has to multiply f16 and sum in f32: what prompts are measured against. Some 20 ms.
core::Ceiling measure_f16_rate();

} // namespace ridge::kernels::cuda
