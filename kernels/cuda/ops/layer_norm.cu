#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void layer_norm_kernel(const float* x, const float* weight, const float* bias, float* out, int64_t group,
                                  int64_t weights, float epsilon, bool centered, Stamp* stamps) {
  __shared__ float scratch[kElementThreads / kWarp];
  const DependentWork work(stamps);
  const int64_t first = blockIdx.x * group, first_weight = first % weights; // groups may have separate weights
  x += first;
  out += first;
  weight += first_weight;
  float sum = 0, squares = 0;
  for (int64_t i = threadIdx.x; centered && i < group; i += kElementThreads) sum += x[i];
  const float mean = block_sum(sum, scratch) / static_cast<float>(group);
  for (int64_t i = threadIdx.x; i < group; i += kElementThreads) squares += (x[i] - mean) * (x[i] - mean);
  const float inverse = rsqrtf(block_sum(squares, scratch) / static_cast<float>(group) + epsilon);
  for (int64_t i = threadIdx.x; i < group; i += kElementThreads)
    out[i] = (x[i] - mean) * inverse * weight[i] + (bias ? bias[first_weight + i] : 0);
}

} // namespace

void launch_layer_norm(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::NormParams>(call.op.params);
  const auto groups = static_cast<unsigned>(call.rows * call.out_width(0) / params.group);
  const float* bias = call.op.weights.size() > 1 ? call.vector(1) : nullptr;
  launch(layer_norm_kernel, groups, kElementThreads, 0, call.in[0], call.vector(0), bias, call.out[0], params.group,
         call.weight(0).cols, params.epsilon, params.centered, launch.stamps());
}

} // namespace ridge::kernels::cuda
