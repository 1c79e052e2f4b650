#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void position_scale_kernel(core::PositionScaleParams params, const float* x, const int32_t* positions,
                                      float* out, int64_t n, int64_t width, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t steps = (positions[i / width] + params.offset) / params.step;
    out[i] = x[i] * (1 + params.scale * log1pf(static_cast<float>(steps)));
  }
}

} // namespace

void launch_position_scale(const Launch& launch, const OpCall& call) {
  const int64_t width = call.out_width(0), n = call.rows * width;
  launch(position_scale_kernel, blocks_for(launch, n), kElementThreads, 0,
         std::get<core::PositionScaleParams>(call.op.params), call.in[0], call.positions, call.out[0], n, width,
         launch.stamps());
}

} // namespace ridge::kernels::cuda
