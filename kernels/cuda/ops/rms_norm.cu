// RMS norm of rows or heads, a block for each.
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void rms_norm_kernel(const float* x, const float* weight, float* out, int64_t group, int64_t weights,
                                float epsilon, Stamp* stamps) {
  __shared__ float scratch[kElementThreads / kWarp];
  const DependentWork work(stamps);
  weight += blockIdx.x * group % weights; // for each group the same, or for each of a row its own
  x += blockIdx.x * group;
  out += blockIdx.x * group;
  float squares = 0;
  for (int64_t i = threadIdx.x; i < group; i += kElementThreads) squares += x[i] * x[i];
  const float inverse = rsqrtf(block_sum(squares, scratch) / static_cast<float>(group) + epsilon);
  for (int64_t i = threadIdx.x; i < group; i += kElementThreads) out[i] = x[i] * inverse * weight[i];
}

} // namespace

void launch_rms_norm(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::NormParams>(call.op.params);
  const auto groups = static_cast<unsigned>(call.rows * call.out_width(0) / params.group);
  launch(rms_norm_kernel, groups, kElementThreads, 0, call.in[0], call.vector(0), call.out[0], params.group,
         call.weight(0).cols, params.epsilon, launch.stamps());
}

} // namespace ridge::kernels::cuda
