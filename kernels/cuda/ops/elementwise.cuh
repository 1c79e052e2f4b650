#pragma once

#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/ptx.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {

inline constexpr int kElementThreads = 256;

inline int blocks_for(const Launch& launch, int64_t n) {
  return static_cast<int>(
      std::clamp<int64_t>((n + kElementThreads - 1) / kElementThreads, 1, launch.sm_count * int64_t{8}));
}

__device__ __forceinline__ int64_t first_index() { return blockIdx.x * int64_t{kElementThreads} + threadIdx.x; }
__device__ __forceinline__ int64_t index_step() { return gridDim.x * int64_t{kElementThreads}; }

} // namespace ridge::kernels::cuda
