// The sum of each token's experts, weighted by their shares.
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void expert_sum_kernel(const float* x, const float* shares, float* out, int64_t tokens, int used,
                                  int64_t width, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < tokens * width; i += index_step()) {
    const int64_t token = i / width, col = i % width;
    float sum = 0;
    for (int s = 0; s < used; ++s) sum += shares[token * used + s] * x[(token * used + s) * width + col];
    out[i] = sum;
  }
}

} // namespace

void launch_expert_sum(const Launch& launch, const OpCall& call) {
  const int64_t width = call.out_width(0);
  launch(expert_sum_kernel, blocks_for(launch, call.rows * width), kElementThreads, 0, call.in[0], call.in[1],
         call.out[0], call.rows, static_cast<int>(call.in_width(1)), width, launch.stamps());
}

} // namespace ridge::kernels::cuda
