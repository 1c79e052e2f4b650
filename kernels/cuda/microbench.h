// The ceilings of this GPU: bandwidths, arithmetic rates and latencies, each from a kernel that does nothing else.
#pragma once

#include "core/ceiling.h"

#include <vector>

namespace ridge::kernels::cuda {

// About a second on an H200. Leaves out what the GPU, or the code compiled for it, does not have. Throws Error where
// there is no usable GPU or too little free memory (2.1 GB).
std::vector<core::Ceiling> measure_ceilings();

} // namespace ridge::kernels::cuda
