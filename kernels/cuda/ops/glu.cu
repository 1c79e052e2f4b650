// Neighbouring elements may share a gate.
#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/ops/ops.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void glu_kernel(core::ActivationParams params, const float* gate, const float* x, float* out, int64_t n,
                           int elements_of_gate, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step())
    out[i] = gated(params, gate[elements_of_gate == 1 ? i : i / elements_of_gate], x[i]);
}

} // namespace

void launch_gate_up_glu(const Launch& launch, const core::ActivationParams& params, const float* gate, const float* up,
                        float* out, int64_t n) {
  launch(glu_kernel, blocks_for(launch, n), kElementThreads, 0, params, gate, up, out, n, 1, launch.stamps());
}

void launch_glu(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::ActivationParams>(call.op.params);
  const int64_t width = call.out_width(0), n = call.rows * width;
  launch(glu_kernel, blocks_for(launch, n), kElementThreads, 0, params, call.in[0], call.in[1], call.out[0], n,
         static_cast<int>(width / call.in_width(0)), launch.stamps());
}

} // namespace ridge::kernels::cuda
