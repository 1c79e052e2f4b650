#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/router/choice.cuh"

#include <type_traits>

namespace ridge::kernels::cuda {
namespace {

// The first largest number's index, by a warp; `count` if all are -infinity or NaN.
__device__ __forceinline__ int best_of(const float* x, int count) {
  float best = -INFINITY;
  int at = count;
  for (int i = threadIdx.x; i < count; i += kWarp)
    if (x[i] > best) best = x[i], at = i;
  const float top = warp_reduce(best, larger);
  return warp_reduce(best == top ? at : count, [](int a, int b) { return min(a, b); });
}

__device__ __forceinline__ void take(float* x, int at) {
  if (threadIdx.x == 0) x[at] = -INFINITY;
  __syncwarp();
}

// Keeps the best groups, by the sum of their two best experts; `quality`: scratch. Not inlined: few models have groups.
__device__ __noinline__ void drop_groups(const RouteArgs& args, float* choice, float* quality) {
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
  for (int i = 0; i < args.groups_used; ++i) {
    const int best = best_of(quality, args.groups);
    if (best < args.groups) take(quality, best);
  }
  for (int e = threadIdx.x; e < args.experts; e += kWarp)
    if (quality[e / size] != -INFINITY) choice[e] = -INFINITY;
  __syncwarp();
}

// See core::RouteParams::nearness. Not inlined: few models have it.
__device__ __noinline__ float near_weight(const float* scores, int experts, float nearness) {
  const int e = threadIdx.x;
  const float score = scores[e];
  float all = 0;
  for (int other = 0; other < experts; ++other) {
    const float below = score - scores[other];
    const bool worse = below > 0 || (below == 0 && other >= e);
    if (worse && below <= nearness * fmaxf(fabsf(score), fabsf(scores[other]))) all += expf(-below);
  }
  return 1 / all;
}

// A thread per expert.
template <int kExperts>
__global__ void __launch_bounds__(kExperts)
    route_kernel(const __grid_constant__ RouteArgs args, float nearness, Stamp* stamps) {
  __shared__ ChoiceMemory<kExperts, kExperts> memory;
  __shared__ float choices[kExperts];
  extern __shared__ float quality[]; // [groups]
  const OverlappingWork work(stamps);
  const int e = threadIdx.x, token = blockIdx.x;
  const bool is_expert = e < args.experts;
  const float bias = args.bias && is_expert ? args.bias[e] : 0;
  set_default_choice(args, memory);
  work.wait();

  const float score = is_expert ? load_latest(args.scores + int64_t{token} * args.experts + e) : -INFINITY;
  float weight;
  if (nearness > 0) {
    choices[e] = score;
    __syncthreads();
    weight = near_weight(choices, args.experts, nearness);
    __syncthreads();
  } else {
    weight = gate_weight(args, score, memory.scratch);
  }
  float choice = is_expert ? bias + choice_weight(args, score, weight) : -INFINITY;
  if (args.groups > 1) {
    choices[e] = choice;
    __syncthreads();
    if (threadIdx.x < kWarp) drop_groups(args, choices, quality);
    __syncthreads();
    choice = choices[e];
  }
  memory.weights[e] = weight;
  args.table ? take_given(args, token, memory) : choose(args, token, choice, memory);
  store_shares(args, token, memory);
}

} // namespace

RouteArgs route_args(const OpCall& call) {
  const auto& params = std::get<core::RouteParams>(call.op.params);
  return {.scores = call.in[0],
          .bias = call.op.weights.empty() ? nullptr : call.vector(0),
          .of_expert = call.op.weights.size() > 1 ? call.vector(1) : nullptr,
          .ids = reinterpret_cast<int32_t*>(call.out[0]),
          .shares = call.out[1],
          .experts = static_cast<int>(params.experts),
          .used = static_cast<int>(params.used),
          .groups = static_cast<int>(params.groups),
          .groups_used = static_cast<int>(params.groups_used),
          .gate = params.gate,
          .normalize = params.normalize,
          .scale = params.scale,
          .by_score = params.by_score,
          .by_sigmoid = params.by_sigmoid,
          .share_matrix = static_cast<int>(params.share_matrix),
          .table = call.op.weights.size() > 2 ? reinterpret_cast<const int32_t*>(call.weight_data[2]) : nullptr,
          .tokens = call.token_ids};
}

void launch_route(const Launch& launch, const OpCall& call) {
  const RouteArgs args = route_args(call);
  const float nearness = std::get<core::RouteParams>(call.op.params).nearness;
  const auto run = [&]<int kExperts>(std::integral_constant<int, kExperts>) {
    launch(route_kernel<kExperts>, static_cast<unsigned>(call.rows), kExperts, args.groups * sizeof(float), args,
           nearness, launch.stamps());
  };
  if (args.experts <= 128) return run(std::integral_constant<int, 128>());
  if (args.experts <= 256) return run(std::integral_constant<int, 256>());
  if (args.experts <= 512) return run(std::integral_constant<int, 512>());
  static_assert(core::kMaxExperts == 1024);
  run(std::integral_constant<int, 1024>());
}

} // namespace ridge::kernels::cuda
