// One head of q, k or v between its matrix and attention: normed, turned by its position, stored in the cache. The
// kernels that do this differ in how many threads share a head.
#pragma once

#include "kernels/cuda/ops.h"
#include "kernels/cuda/ptx.cuh"

namespace ridge::kernels::cuda {

// One head's vector into a q8_0 cache: a warp takes 32 elements and their scale. What is not a number, or infinite,
// gives an infinite scale, so that a broken model shows. As the CPU's cache rounds, to the bit.
__device__ __forceinline__ void store_codes(const float* x, int dim, int64_t at, void* codes, uint16_t* scales,
                                            int warp, int warps) {
  const int lane = threadIdx.x % kWarp;
  for (int block = warp; block < dim / kWarp; block += warps) {
    const float value = x[block * kWarp + lane];
    const float largest =
        warp_reduce(value == value ? fabsf(value) : INFINITY, [](float a, float b) { return fmaxf(a, b); });
    const float inverse = largest > 1e-30f && largest < INFINITY ? 127 / largest : 0;
    static_cast<int8_t*>(codes)[at + block * kWarp + lane] =
        inverse > 0 ? static_cast<int8_t>(rintf(value * inverse)) : int8_t{0};
    if (lane == 0) scales[at / kWarp + block] = __half_as_ushort(__float2half_rn(largest / 127));
  }
}

// The same into a cache of any type, by `warps` warps of which this thread's is number `warp`. `at`: the first element.
__device__ __forceinline__ void store_head(const float* x, int dim, int64_t at, void* to, bool half, uint16_t* scales,
                                           int warp, int warps) {
  if (scales) return store_codes(x, dim, at, to, scales, warp, warps);
  for (int i = warp * kWarp + threadIdx.x % kWarp; i < dim; i += warps * kWarp) {
    if (half)
      static_cast<__half*>(to)[at + i] = __float2half_rn(x[i]);
    else
      static_cast<float*>(to)[at + i] = x[i];
  }
}

// Cosine and sine of a pair's angle, times the magnitude.
__device__ __forceinline__ float2 turn_of(const RopeArgs& rope, int pair, int position) {
  float sine, cosine; // the accurate ones: angles reach 100,000 radians
  sincosf(static_cast<float>(position) * rope.inverse_frequency[pair], &sine, &cosine);
  return {cosine * rope.magnitude, sine * rope.magnitude};
}

} // namespace ridge::kernels::cuda
