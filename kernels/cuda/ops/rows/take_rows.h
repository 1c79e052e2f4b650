#pragma once

#include "kernels/cuda/runtime/device.h"

#include <cstdint>

namespace ridge::kernels::cuda {

// out[i] = from[which[i]], or zeros where which[i] < 0.
void launch_take_rows(const Launch&, const float* from, const int32_t* which, float* out, int64_t count, int64_t width);

} // namespace ridge::kernels::cuda
