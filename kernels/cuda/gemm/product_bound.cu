// Computes product_bound.h from decoded weights.
#include "kernels/cuda/gemm/prompt_product.h"
#include "kernels/cuda/runtime/ptx.cuh"
#include "kernels/cuda/runtime/warp.cuh"

#include <cuda_fp16.h>

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 256, kRowsOfBlock = kThreads / kWarp;

// Non-negative floats order like their bits.
__device__ __forceinline__ void raise(float* largest, float value) {
  atomicMax(reinterpret_cast<int*>(largest), __float_as_int(value));
}

__global__ void __launch_bounds__(kThreads)
    row_sum_kernel(const uint8_t* operand, int rows, int pitch, int tiles, ProductBound* bound) {
  const int lane = threadIdx.x % kWarp, row = blockIdx.x * kRowsOfBlock + threadIdx.x / kWarp;
  if (row >= rows) return;
  float sum = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    const auto* pairs = reinterpret_cast<const __half2*>(operand + (int64_t{tile} * pitch + row) * kTileRowBytes);
    const float2 v = __half22float2(pairs[lane]);
    sum += fabsf(v.x) + fabsf(v.y);
  }
  sum = warp_sum(sum);
  if (lane == 0) raise(&bound->row_sum, sum * exp2f(-kWeightExponent));
}

__global__ void __launch_bounds__(kThreads) bias_kernel(const float* bias, int rows, ProductBound* bound) {
  float largest = 0;
  for (int i = threadIdx.x; i < rows; i += kThreads) largest = fmaxf(largest, fabsf(bias[i]));
  raise(&bound->bias, largest);
}

} // namespace

void launch_product_bound(const Launch& launch, const PromptMatrices& matrix, PromptScratch& scratch,
                          ProductBound* bound) {
  const GemmSegment& segment = matrix.args.segment[0];
  const auto tiles = static_cast<int>(tiles_of(matrix.args.cols));
  const auto room = static_cast<int>(scratch.buffer_bytes() / (int64_t{tiles} * kTileRowBytes));
  uint8_t* decoded = scratch.buffer(0);
  RIDGE_CUDA(cudaMemsetAsync(bound, 0, sizeof(*bound), launch.stream));
  for (int first = 0; first < segment.rows; first += room) {
    const int rows = std::min(room, segment.rows - first);
    ExpandArgs from = {};
    from.segments = 1;
    from.cols = matrix.args.cols;
    from.stride = 1;
    from.row_bytes = matrix.args.row_bytes;
    from.out = decoded;
    from.out_rows = rows;
    from.segment[0] = {segment.weights + first * matrix.args.row_bytes, rows, 0};
    matrix.expand(launch, from);
    launch(row_sum_kernel, (rows + kRowsOfBlock - 1) / kRowsOfBlock, kThreads, 0, decoded, rows, rows, tiles, bound);
  }
  if (segment.bias) launch(bias_kernel, 1, kThreads, 0, segment.bias, segment.rows, bound);
}

} // namespace ridge::kernels::cuda
