// Each token's experts and their shares.
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/runtime/warp.cuh"

#include <cfloat>

namespace ridge::kernels::cuda {
namespace {

struct RouteArgs {
  const float *x, *bias, *of_expert; // [tokens][experts], [experts] or null, the latter scales of shares
  int32_t* ids;                      // [tokens][used]
  float* shares;
  int experts, used, groups, groups_used;
  core::Gate gate;
  bool normalize;
  float scale;
  bool by_score;
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

// What a lane knows of its experts: every kWarp-th, from its own number on, in registers. Beyond the last expert
// weights are 0 and scores -infinity.
template <int kOwn>
struct OwnExperts {
  float weight[kOwn]; // the share before any choice; of softmax_of_chosen the score
  float bias[kOwn];   // by_score: with the score
  bool by_score;

  __device__ __forceinline__ OwnExperts(const RouteArgs& args, const float* scores) : by_score(args.by_score) {
    float x[kOwn], largest = -FLT_MAX, sum = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int e = expert(i);
      x[i] = e < args.experts ? scores[e] : -INFINITY;
      bias[i] = (args.bias && e < args.experts ? args.bias[e] : 0) + (by_score ? x[i] : 0);
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) largest = fmaxf(largest, x[i]);
    if (args.gate == core::Gate::softmax) largest = warp_reduce(largest, larger);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      weight[i] = args.gate == core::Gate::softmax   ? expf(x[i] - largest)
                  : args.gate == core::Gate::sigmoid ? 1 / (1 + expf(-x[i]))
                                                     : x[i];
      sum += weight[i];
    }
    if (args.gate != core::Gate::softmax) return;
    const float inverse = 1 / warp_sum(sum);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) weight[i] *= inverse;
  }

  static __device__ __forceinline__ int expert(int i) { return i * kWarp + static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ float choice(int i) const { return by_score ? bias[i] : weight[i] + bias[i]; }
};

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

// A float as an integer of the same order; what is no number comes last.
__device__ __forceinline__ uint32_t ordered(float x) {
  const uint32_t bits = __float_as_uint(x);
  return x != x ? 0 : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The experts that are left, in registers of their lanes.
template <int kOwn>
struct Candidates {
  uint32_t keys[kOwn];

  // Takes the first of the largest out; its number, or -1 where all are -infinity or no numbers.
  __device__ __forceinline__ int take_best() {
    uint32_t best = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) best = max(best, keys[i]);
    const uint32_t top = warp_max(best);
    if (top <= ordered(-INFINITY)) return -1;
    int own = kOwn;
#pragma unroll
    for (int i = kOwn - 1; i >= 0; --i)
      if (keys[i] == top) own = i;
    // The smallest number is the largest complement.
    const int at = static_cast<int>(~warp_max(~static_cast<uint32_t>(OwnExperts<kOwn>::expert(own))));
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
      if (OwnExperts<kOwn>::expert(i) == at) keys[i] = 0;
    return at;
  }
};

// Scores of the chosen as shares, which add up to `scale` where they are normalized, each times a scale of its expert.
__device__ __forceinline__ void store_shares(const RouteArgs& args, const int32_t* ids, const float* weights,
                                             float* shares) {
  const bool softmax = args.gate == core::Gate::softmax_of_chosen;
  const auto share = [&](int s) { return softmax ? expf(weights[ids[s]] - weights[ids[0]]) : weights[ids[s]]; };
  float total = 0;
  for (int s = threadIdx.x; s < args.used; s += kWarp) total += share(s);
  total = warp_sum(total);
  const float factor = softmax          ? args.scale / total
                       : args.normalize ? args.scale / fmaxf(total, 0x1p-14f) // f16's smallest normal number, as the
                                        : args.scale;                         // models' authors have it
  for (int s = threadIdx.x; s < args.used; s += kWarp)
    shares[s] = factor * share(s) * (args.of_expert ? args.of_expert[ids[s]] : 1);
}

// One warp per token. kOwn: the most experts of a lane.
template <int kOwn>
__global__ void route_kernel(const __grid_constant__ RouteArgs args, Stamp* stamps) {
  extern __shared__ float shared[];
  float *weights = shared, *choice = weights + args.experts,
        *quality = choice + args.experts;                           // [experts] × 2, [groups]
  auto* chosen = reinterpret_cast<int32_t*>(quality + args.groups); // [used]
  const DependentWork work(stamps);
  const int64_t token = blockIdx.x;
  const OwnExperts<kOwn> own(args, args.x + token * args.experts);
  Candidates<kOwn> candidates;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int e = own.expert(i);
    candidates.keys[i] = e < args.experts ? ordered(own.choice(i)) : 0;
    if (e < args.experts) weights[e] = own.weight[i];
    if (args.groups > 1 && e < args.experts) choice[e] = own.choice(i);
  }
  __syncwarp();
  if (args.groups > 1) {
    drop_groups(args, choice, quality);
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
      if (const int e = own.expert(i); e < args.experts) candidates.keys[i] = ordered(choice[e]);
  }

  for (int s = 0; s < args.used; ++s) {
    const int best = candidates.take_best();
    if (threadIdx.x == 0) chosen[s] = best < 0 ? s : best; // of broken weights, whose scores are no numbers
  }
  __syncwarp();
  for (int s = threadIdx.x; s < args.used; s += kWarp) args.ids[token * args.used + s] = chosen[s];
  store_shares(args, chosen, weights, args.shares + token * args.used);
}

} // namespace

void launch_route(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::RouteParams>(call.op.params);
  const RouteArgs args = {call.in[0],
                          call.op.weights.empty() ? nullptr : call.vector(0),
                          call.op.weights.size() > 1 ? call.vector(1) : nullptr,
                          reinterpret_cast<int32_t*>(call.out[0]),
                          call.out[1],
                          static_cast<int>(params.experts),
                          static_cast<int>(params.used),
                          static_cast<int>(params.groups),
                          static_cast<int>(params.groups_used),
                          params.gate,
                          params.normalize,
                          params.scale,
                          params.by_score};
  const auto run = [&](auto kernel) {
    const int64_t words = 2 * params.experts + params.groups + params.used;
    launch(kernel, static_cast<unsigned>(call.rows), kWarp, words * sizeof(float), args, launch.stamps());
  };
  if (args.experts <= 4 * kWarp) return run(route_kernel<4>);
  if (args.experts <= 8 * kWarp) return run(route_kernel<8>);
  if (args.experts <= 16 * kWarp) return run(route_kernel<16>);
  static_assert(core::kMostExperts == 32 * kWarp);
  run(route_kernel<32>);
}

} // namespace ridge::kernels::cuda
