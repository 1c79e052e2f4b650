// Part of the row that a token is given. The executor takes no batches with such rows, and other tokens
// have zeros.
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void zero_kernel(float* out, int64_t n, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) out[i] = 0;
}

} // namespace

void launch_given(const Launch& launch, const OpCall& call) {
  const int64_t n = call.rows * call.out_width(0);
  launch(zero_kernel, blocks_for(launch, n), kElementThreads, 0, call.out[0], n, launch.stamps());
}

} // namespace ridge::kernels::cuda
