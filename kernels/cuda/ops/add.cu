#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void add_kernel(const float* a, const float* b, float scale, float* out, int64_t n, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) out[i] = a[i] + scale * b[i];
}

} // namespace

void launch_add(const Launch& launch, const OpCall& call) {
  const int64_t n = call.rows * call.out_width(0);
  launch(add_kernel, blocks_for(launch, n), kElementThreads, 0, call.in[0], call.in[1],
         std::get<core::AddParams>(call.op.params).scale, call.out[0], n, launch.stamps());
}

} // namespace ridge::kernels::cuda
