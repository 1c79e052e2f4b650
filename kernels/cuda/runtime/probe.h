#pragma once

#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

// Ten times the loaded code's compute capability, which may be older than the chip's.
int compiled_for();

// bytes: a multiple of kReadBytes.
inline constexpr int kReadBytes = 32 << 10;
void launch_read(const Launch&, const uint8_t* data, size_t bytes, uint32_t* sink);

} // namespace ridge::kernels::cuda
