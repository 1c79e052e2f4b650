// An activation of every element.
#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void activate_kernel(core::ActivationParams params, const float* x, float* out, int64_t n, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const float limited = params.limit > 0 ? fminf(fmaxf(x[i], -params.limit), params.limit) : x[i];
    out[i] = activated(params, limited);
  }
}

} // namespace

void launch_activate(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::ActivationParams>(call.op.params);
  const int64_t n = call.rows * call.out_width(0);
  launch(activate_kernel, blocks_for(launch, n), kElementThreads, 0, params, call.in[0], call.out[0], n,
         launch.stamps());
}

} // namespace ridge::kernels::cuda
