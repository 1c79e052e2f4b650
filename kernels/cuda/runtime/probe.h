// What the device and this build can do.
#pragma once

#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

// The compute capability that the loaded kernels were compiled for, times ten: an older one than the chip's where the
// driver translated them. From 90 on they wait for their predecessor themselves, from 80 on copies arrive at barriers.
int compiled_for();

// Reads `bytes` (a multiple of kReadBytes) and keeps nothing; `sink` is one word.
inline constexpr int kReadBytes = 32 << 10;
void launch_read(const Launch&, const uint8_t* data, size_t bytes, uint32_t* sink);

} // namespace ridge::kernels::cuda
