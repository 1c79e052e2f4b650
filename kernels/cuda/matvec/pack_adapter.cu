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
__global__ void pack_a_kernel(AdapterSegment to, const float* a, const float* norm, const float* factors,
                              int64_t cols) {
  const int64_t first = blockIdx.x * cols;
  const auto value = [&](int64_t i) { return a[first + i] * (norm ? norm[i] : 1); };
  float largest = 0;
  for (int64_t i = threadIdx.x; i < cols; i += kPackThreads) largest = fmaxf(largest, fabsf(value(i)));
  const int exponent = shared_exponent(largest);
  for (int64_t i = threadIdx.x; i < cols; i += kPackThreads)
    const_cast<uint16_t*>(to.a)[first + i] = half_bits(scalbnf(value(i), -exponent));
  if (threadIdx.x == 0) const_cast<float*>(to.factors)[blockIdx.x] = scalbnf(factors[blockIdx.x], exponent);
}

// A block per padded column.
__global__ void pack_b_kernel(AdapterSegment to, const float* b, int64_t rows) {
  const int column = blockIdx.x;
  const auto value = [&](int64_t i) { return column < to.rank ? b[i * to.rank + column] : 0; };
  float largest = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kPackThreads) largest = fmaxf(largest, fabsf(value(i)));
  const int exponent = shared_exponent(largest);
  for (int64_t i = threadIdx.x; i < rows; i += kPackThreads)
    const_cast<uint16_t*>(to.b)[i * to.padded_rank + column] = half_bits(scalbnf(value(i), -exponent));
  auto* factor = const_cast<float*>(to.factors) + column;
  if (threadIdx.x == 0) *factor = column < to.rank ? scalbnf(*factor, exponent) : 0;
}

} // namespace

void pack_adapter_a(const Launch& launch, const AdapterSegment& to, const float* a, const float* norm,
                    const float* factors, int64_t cols) {
  launch(pack_a_kernel, static_cast<unsigned>(to.rank), kPackThreads, 0, to, a, norm, factors, cols);
}

void pack_adapter_b(const Launch& launch, const AdapterSegment& to, const float* b, int64_t rows) {
  launch(pack_b_kernel, static_cast<unsigned>(to.padded_rank), kPackThreads, 0, to, b, rows);
}

} // namespace ridge::kernels::cuda
