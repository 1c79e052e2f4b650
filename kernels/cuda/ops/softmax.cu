// A warp per short row.
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kRows = 4;

__global__ void softmax_kernel(const float* x, float* out, int64_t rows, int width, Stamp* stamps) {
  const DependentWork work(stamps);
  const int lane = threadIdx.x % kWarp;
  const int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.x / kWarp;
  if (row >= rows) return;
  x += row * width;
  out += row * width;
  float largest = -INFINITY, sum = 0;
  for (int i = lane; i < width; i += kWarp) largest = fmaxf(largest, x[i]);
  largest = warp_reduce(largest, [](float a, float b) { return fmaxf(a, b); });
  for (int i = lane; i < width; i += kWarp) sum += expf(x[i] - largest);
  sum = warp_reduce(sum, [](float a, float b) { return a + b; });
  for (int i = lane; i < width; i += kWarp) out[i] = expf(x[i] - largest) / sum;
}

} // namespace

void launch_softmax(const Launch& launch, const OpCall& call) {
  launch(softmax_kernel, static_cast<unsigned>((call.rows + kRows - 1) / kRows), kRows * kWarp, 0, call.in[0],
         call.out[0], call.rows, static_cast<int>(call.out_width(0)), launch.stamps());
}

} // namespace ridge::kernels::cuda
