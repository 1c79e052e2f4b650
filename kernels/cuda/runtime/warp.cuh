// Reductions of integers over a warp.
#pragma once

#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

__device__ __forceinline__ uint32_t warp_max(uint32_t x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0u, x); // one instruction
#else
  return warp_reduce(x, [](uint32_t a, uint32_t b) { return max(a, b); });
#endif
}

} // namespace ridge::kernels::cuda
