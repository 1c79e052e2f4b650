// Work beside a product, in its kernel: a folded router's scores (router_scores.cuh) or LoRA adapters
// (adapter_rows.cuh). multiply_rows calls these in order.
#pragma once

#include "kernels/cuda/products/cuts.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {

struct NothingBeside {
  static constexpr bool kChanges = false; // has change(), which is added to the results

  __device__ __forceinline__ void start() {}
  template <typename Rows>
  __device__ __forceinline__ void prepare(const Rows&) {} // after a barrier, while activations arrive
  // Token t's activations, before the norm.
  __device__ __forceinline__ void add(int, const float (&)[8], int /*column*/) {}
  __device__ __forceinline__ void add(int, float4, int /*column*/) {} // in float formats
  __device__ __forceinline__ void finish() {}
  __device__ __forceinline__ void publish() const {} // after a barrier
  __device__ __forceinline__ void approach_end(int /*chunks_left*/) {}
  __device__ __forceinline__ void gather() {} // before the epilogue's barrier
};

// A block adds up [tokens][rows] products: each warp its threads' sums, then, after a barrier, warp i those of place i.
template <int kTokens, int kRows>
__device__ __forceinline__ void store_warp_sums(float* sums, const float (&of_thread)[kTokens][kRows], int rows) {
#pragma unroll
  for (int i = 0; i < kTokens * kRows; ++i) {
    if (i % kRows >= rows) continue;
    const float sum = warp_sum(of_thread[i / kRows][i % kRows]);
    if (threadIdx.x % kWarp == 0) sums[i * kMatvecWarps + threadIdx.x / kWarp] = sum;
  }
}
__device__ __forceinline__ float add_warp_sums(const float* sums) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  return warp_sum(lane < static_cast<int>(blockDim.x) / kWarp ? sums[warp * kMatvecWarps + lane] : 0);
}

} // namespace ridge::kernels::cuda
