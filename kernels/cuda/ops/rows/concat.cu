#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void concat_kernel(const float* a, const float* b, float* out, int64_t n, int64_t a_width, int64_t b_width,
                              Stamp* stamps) {
  const DependentWork work(stamps);
  const int64_t width = a_width + b_width;
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t row = i / width, col = i % width;
    out[i] = col < a_width ? a[row * a_width + col] : b[row * b_width + col - a_width];
  }
}

} // namespace

void launch_concat(const Launch& launch, const OpCall& call) {
  const int64_t n = call.rows * call.out_width(0);
  launch(concat_kernel, blocks_for(launch, n), kElementThreads, 0, call.in[0], call.in[1], call.out[0], n,
         call.in_width(0), call.in_width(1), launch.stamps());
}

} // namespace ridge::kernels::cuda
