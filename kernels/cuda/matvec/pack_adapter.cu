#include "kernels/cuda/matvec/pack_adapter.h"

#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kPackThreads = 256;

// The exponent that brings the block's largest value just below 2^15.
__device__ int shared_exponent(float largest) {
  __shared__ float scratch[kPackThreads / kWarp];
  const auto larger = [](float a, float b) { return fmaxf(a, b); };
  largest = warp_reduce(largest, larger);
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = largest;
  __syncthreads();
  for (const float other : scratch) largest = fmaxf(largest, other);
  return largest > 0 ? ilogbf(largest) - 14 : 0;
}

__device__ uint16_t half_bits(float v) { return __half_as_ushort(__float2half_rn(v)); }

// A block per row.
__global__ void pack_a_kernel(const float* a, int64_t cols, const float* norm, const float* factors, uint16_t* to,
                              float* to_factors) {
  const int64_t first = blockIdx.x * cols;
  const auto value = [&](int64_t i) { return a[first + i] * (norm ? norm[i] : 1); };
  float largest = 0;
  for (int64_t i = threadIdx.x; i < cols; i += kPackThreads) largest = fmaxf(largest, fabsf(value(i)));
  const int exponent = shared_exponent(largest);
  for (int64_t i = threadIdx.x; i < cols; i += kPackThreads) to[first + i] = half_bits(scalbnf(value(i), -exponent));
  if (threadIdx.x == 0) to_factors[blockIdx.x] = scalbnf(factors[blockIdx.x], exponent);
}

// A block per column.
__global__ void pack_b_kernel(const float* b, int64_t rows, uint16_t* to, int64_t to_stride, float* factors,
                              float* more_factors) {
  const int column = blockIdx.x;
  const auto value = [&](int64_t i) { return b[i * gridDim.x + column]; };
  float largest = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kPackThreads) largest = fmaxf(largest, fabsf(value(i)));
  const int exponent = shared_exponent(largest);
  for (int64_t i = threadIdx.x; i < rows; i += kPackThreads)
    to[i * to_stride + column] = half_bits(scalbnf(value(i), -exponent));
  if (threadIdx.x > 0) return;
  for (float* const each : {factors, more_factors})
    if (each) each[column] = scalbnf(each[column], exponent);
}

} // namespace

void pack_adapter_a(const Launch& launch, const float* a, int64_t rows, int64_t cols, const float* norm,
                    const float* factors, uint16_t* to, float* to_factors) {
  launch(pack_a_kernel, static_cast<unsigned>(rows), kPackThreads, 0, a, cols, norm, factors, to, to_factors);
}

void pack_adapter_b(const Launch& launch, const float* b, int64_t rows, int64_t columns, uint16_t* to,
                    int64_t to_stride, float* factors, float* more_factors) {
  launch(pack_b_kernel, static_cast<unsigned>(columns), kPackThreads, 0, b, rows, to, to_stride, factors, more_factors);
}

} // namespace ridge::kernels::cuda
