#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void activate_kernel(core::ActivationParams params, const float* x, const float* factors, float* out,
                                int64_t n, int64_t width, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const float limited = params.limit > 0 ? fminf(fmaxf(x[i], -params.limit), params.limit) : x[i];
    out[i] = activated(params, limited) * (factors ? factors[i % width] : 1);
  }
}

} // namespace

void launch_activate(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::ActivationParams>(call.op.params);
  const int64_t width = call.out_width(0), n = call.rows * width;
  const float* factors = call.op.weights.empty() ? nullptr : call.vector(0);
  launch(activate_kernel, blocks_for(launch, n), kElementThreads, 0, params, call.in[0], factors, call.out[0], n, width,
         launch.stamps());
}

} // namespace ridge::kernels::cuda
