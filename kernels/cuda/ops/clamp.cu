#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void clamp_kernel(const float* x, float low, float high, float* out, int64_t n, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) out[i] = fminf(fmaxf(x[i], low), high);
}

} // namespace

void launch_clamp(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::ClampParams>(call.op.params);
  const int64_t n = call.rows * call.out_width(0);
  launch(clamp_kernel, blocks_for(launch, n), kElementThreads, 0, call.in[0], params.low, params.high, call.out[0], n,
         launch.stamps());
}

} // namespace ridge::kernels::cuda
