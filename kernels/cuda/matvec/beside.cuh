// Work beside a product, in its kernel: a folded router's scores (router_scores.cuh) or LoRA adapters
// (adapter_rows.cuh). multiply_rows calls these in order.
#pragma once

#include <cuda_runtime.h>

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

} // namespace ridge::kernels::cuda
