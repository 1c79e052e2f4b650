#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void gather_kernel(const float* x, const int32_t* rows, float* out, int64_t n, int64_t width,
                              Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n * width; i += index_step()) out[i] = x[rows[i / width] * width + i % width];
}

} // namespace

void launch_gather(const Launch& launch, const OpCall& call) {
  const int64_t width = call.out_width(0);
  launch(gather_kernel, blocks_for(launch, call.rows * width), kElementThreads, 0, call.in[0], call.outputs,
         call.out[0], call.rows, width, launch.stamps());
}

} // namespace ridge::kernels::cuda
