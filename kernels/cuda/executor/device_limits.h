// What this GPU, with the code that was compiled for it, can do, and how fast it is by what its driver says.
#pragma once

#include "kernels/cuda/plan/chip.h"

namespace ridge::kernels::cuda {

// The device must be usable (device_info). With as_compute (75, 80, 86, 89), as if it were such an older chip with this
// one's multiprocessors, clock and memory.
DeviceLimits device_limits(int device, int as_compute);
ChipRates device_rates(int device, int as_compute);

} // namespace ridge::kernels::cuda
