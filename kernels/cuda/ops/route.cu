// Each token's experts and their shares.
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/runtime/ptx.cuh"

#include <cfloat>

namespace ridge::kernels::cuda {
namespace {

struct RouteArgs {
  const float *x, *bias; // [tokens][experts], [experts] or null
  int32_t* ids;          // [tokens][used]
  float* shares;
  int experts, used, groups, groups_used;
  core::Gate gate;
  bool normalize;
  float scale;
};

__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }

// The first of the largest of `count` numbers, by a warp; `count` where all are -infinity or no numbers.
__device__ __forceinline__ int best_of(const float* x, int count) {
  float best = -INFINITY;
  int at = count;
  for (int i = threadIdx.x; i < count; i += kWarp)
    if (x[i] > best) best = x[i], at = i;
  const float top = warp_reduce(best, larger);
  return warp_reduce(best == top ? at : count, [](int a, int b) { return min(a, b); });
}

// Makes an entry the worst.
__device__ __forceinline__ void take(float* x, int at) {
  if (threadIdx.x == 0) x[at] = -INFINITY;
  __syncwarp();
}

// weights[e]: the share of expert e before any choice; of softmax_of_chosen its score.
__device__ __forceinline__ void weigh(const RouteArgs& args, const float* x, float* weights) {
  float largest = -FLT_MAX, sum = 0;
  for (int e = threadIdx.x; e < args.experts; e += kWarp) largest = fmaxf(largest, x[e]);
  largest = warp_reduce(largest, larger);
  for (int e = threadIdx.x; e < args.experts; e += kWarp) {
    const float shifted = expf(x[e] - largest);
    weights[e] = args.gate == core::Gate::softmax   ? shifted
                 : args.gate == core::Gate::sigmoid ? 1 / (1 + expf(-x[e]))
                                                    : x[e];
    sum += shifted;
  }
  sum = warp_sum(sum);
  if (args.gate == core::Gate::softmax)
    for (int e = threadIdx.x; e < args.experts; e += kWarp) weights[e] /= sum;
  __syncwarp();
}

// Leaves the best groups of `choice`. A group is as good as its two best experts together; `quality` is scratch.
__device__ __forceinline__ void drop_groups(const RouteArgs& args, float* choice, float* quality) {
  const int size = args.experts / args.groups;
  for (int g = threadIdx.x; g < args.groups; g += kWarp) {
    float first = -INFINITY, second = -INFINITY;
    for (int e = g * size; e < (g + 1) * size; ++e) {
      const float c = choice[e];
      if (c > first)
        second = first, first = c;
      else if (c > second)
        second = c;
    }
    quality[g] = size > 1 ? first + second : first;
  }
  __syncwarp();
  for (int i = 0; i < args.groups_used; ++i) { // the groups that are kept are at -infinity in the end
    const int best = best_of(quality, args.groups);
    if (best < args.groups) take(quality, best);
  }
  for (int e = threadIdx.x; e < args.experts; e += kWarp)
    if (quality[e / size] != -INFINITY) choice[e] = -INFINITY;
  __syncwarp();
}

// One warp per token.
__global__ void route_kernel(const __grid_constant__ RouteArgs args, Stamp* stamps) {
  extern __shared__ float shared[];
  float *weights = shared, *choice = weights + args.experts,
        *quality = choice + args.experts; // [experts] × 2, [groups]
  const DependentWork work(stamps);
  const int64_t token = blockIdx.x;
  weigh(args, args.x + token * args.experts, weights);
  for (int e = threadIdx.x; e < args.experts; e += kWarp) choice[e] = weights[e] + (args.bias ? args.bias[e] : 0);
  __syncwarp();
  if (args.groups > 1) drop_groups(args, choice, quality);

  float total = 0, first = 0;
  for (int s = 0; s < args.used; ++s) {
    const int best = best_of(choice, args.experts);
    const int chosen = best < args.experts ? best : s; // of broken weights, whose scores are no numbers
    float share = weights[chosen];
    if (args.gate == core::Gate::softmax_of_chosen) {
      if (s == 0) first = share;
      share = expf(share - first);
    }
    total += share;
    if (threadIdx.x == 0) {
      args.ids[token * args.used + s] = chosen;
      args.shares[token * args.used + s] = share;
    }
    take(choice, chosen);
  }
  float factor = args.scale;
  if (args.gate == core::Gate::softmax_of_chosen)
    factor /= total;
  else if (args.normalize)
    factor /= fmaxf(total, 0x1p-14f); // f16's smallest normal number, as the models' authors have it
  if (threadIdx.x == 0)
    for (int s = 0; s < args.used; ++s) args.shares[token * args.used + s] *= factor;
}

} // namespace

void launch_route(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::RouteParams>(call.op.params);
  const RouteArgs args = {call.in[0],
                          call.op.weights.empty() ? nullptr : call.vector(0),
                          reinterpret_cast<int32_t*>(call.out[0]),
                          call.out[1],
                          static_cast<int>(params.experts),
                          static_cast<int>(params.used),
                          static_cast<int>(params.groups),
                          static_cast<int>(params.groups_used),
                          params.gate,
                          params.normalize,
                          params.scale};
  launch(route_kernel, static_cast<unsigned>(call.rows), kWarp, (2 * params.experts + params.groups) * sizeof(float),
         args, launch.stamps());
}

} // namespace ridge::kernels::cuda
