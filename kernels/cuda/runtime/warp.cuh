#pragma once

#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

__device__ __forceinline__ uint32_t warp_max(uint32_t x) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0u, x);
#else
  return warp_reduce(x, [](uint32_t a, uint32_t b) { return max(a, b); });
#endif
}

// Inclusive prefix sum, by whole warps.
template <typename T>
__device__ __forceinline__ T warp_prefix_sum(T x) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
  for (int by = 1; by < kWarp; by *= 2) {
    const T before = __shfl_up_sync(~0u, x, by);
    if (lane >= by) x += before;
  }
  return x;
}

} // namespace ridge::kernels::cuda
