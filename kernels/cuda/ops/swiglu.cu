// silu(gate) * up, element by element.
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/ops/ops.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void swiglu_kernel(const float* gate, const float* up, float* out, int64_t n, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) out[i] = gate[i] / (1 + __expf(-gate[i])) * up[i];
}

} // namespace

void launch_swiglu(const Launch& launch, const float* gate, const float* up, float* out, int64_t n) {
  launch(swiglu_kernel, blocks_for(launch, n), kElementThreads, 0, gate, up, out, n, launch.stamps());
}

void launch_swiglu(const Launch& launch, const OpCall& call) {
  launch_swiglu(launch, call.in[0], call.in[1], call.out[0], call.rows * call.out_width(0));
}

} // namespace ridge::kernels::cuda
