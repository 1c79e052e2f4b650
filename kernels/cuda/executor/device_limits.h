// Capabilities of a GPU with the code compiled for it, and rates by its driver's attributes.
#pragma once

#include "kernels/cuda/plan/chip.h"

namespace ridge::kernels::cuda {

// The device must be usable (device_info). as_compute (75, 80, 86, 89): treats it as a chip of that generation; 0: as
// it is.
DeviceLimits device_limits(int device, int as_compute);
ChipRates device_rates(int device, int as_compute);

} // namespace ridge::kernels::cuda
