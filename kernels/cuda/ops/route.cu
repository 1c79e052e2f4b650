// Each token's experts and their shares.
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/runtime/ptx.cuh"

#include <cfloat>

namespace ridge::kernels::cuda {
namespace {

// One warp per token: softmax over the experts, then `used` times the largest that is left (the first of equals).
__global__ void route_kernel(const float* x, int32_t* ids, float* shares, int64_t tokens, int experts, int used,
                             bool normalize, Stamp* stamps) {
  extern __shared__ float probabilities[]; // [experts]
  const DependentWork work(stamps);
  const int64_t token = blockIdx.x;
  const int lane = threadIdx.x;
  const auto larger = [](float a, float b) { return fmaxf(a, b); };
  x += token * experts;
  float largest = -FLT_MAX, sum = 0;
  for (int e = lane; e < experts; e += kWarp) largest = fmaxf(largest, x[e]);
  largest = warp_reduce(largest, larger);
  for (int e = lane; e < experts; e += kWarp) sum += probabilities[e] = expf(x[e] - largest);
  sum = warp_sum(sum);
  __syncwarp();
  float total = 0;
  for (int s = 0; s < used; ++s) {
    float best = -1;
    int best_expert = 0;
    for (int e = lane; e < experts; e += kWarp)
      if (probabilities[e] > best) best = probabilities[e], best_expert = e;
    const float top = warp_reduce(best, larger);
    const int chosen = warp_reduce(best == top ? best_expert : experts, [](int a, int b) { return min(a, b); });
    if (lane == 0) {
      ids[token * used + s] = chosen;
      shares[token * used + s] = top / sum;
      probabilities[chosen] = -1;
    }
    total += top / sum;
    __syncwarp();
  }
  if (normalize && lane == 0)
    for (int s = 0; s < used; ++s) shares[token * used + s] /= total;
}

} // namespace

void launch_route(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::RouteParams>(call.op.params);
  const auto experts = static_cast<int>(params.experts);
  launch(route_kernel, static_cast<unsigned>(call.rows), kWarp, experts * sizeof(float), call.in[0],
         reinterpret_cast<int32_t*>(call.out[0]), call.out[1], call.rows, experts, static_cast<int>(params.used),
         params.normalize, launch.stamps());
}

} // namespace ridge::kernels::cuda
