// Each token's experts and their shares.
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/runtime/warp.cuh"

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

// f(e) for the experts of a lane. kOwn: the most there are, 0 for any number.
template <int kOwn, typename F>
__device__ __forceinline__ void for_own(int experts, const F& f) {
  if constexpr (kOwn > 0) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
      if (const int e = i * kWarp + static_cast<int>(threadIdx.x); e < experts) f(e);
  } else {
    for (int e = threadIdx.x; e < experts; e += kWarp) f(e);
  }
}

// weights[e]: the share of expert e before any choice; of softmax_of_chosen its score.
template <int kOwn>
__device__ __forceinline__ void weigh(const RouteArgs& args, const float* x, float* weights) {
  float largest = -FLT_MAX, sum = 0;
  for_own<kOwn>(args.experts, [&](int e) { largest = fmaxf(largest, x[e]); });
  largest = warp_reduce(largest, larger);
  for_own<kOwn>(args.experts, [&](int e) {
    const float shifted = expf(x[e] - largest);
    weights[e] = args.gate == core::Gate::softmax   ? shifted
                 : args.gate == core::Gate::sigmoid ? 1 / (1 + expf(-x[e]))
                                                    : x[e];
    sum += shifted;
  });
  if (args.gate == core::Gate::softmax) {
    sum = warp_sum(sum);
    for_own<kOwn>(args.experts, [&](int e) { weights[e] /= sum; });
  }
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

// A float as an integer of the same order; what is no number comes last.
__device__ __forceinline__ uint32_t ordered(float x) {
  const uint32_t bits = __float_as_uint(x);
  return x != x ? 0 : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The entries of `choice` that are left, in registers: a lane has every kWarp-th of them, from its own number on.
template <int kOwn>
struct Candidates {
  uint32_t keys[kOwn];

  __device__ __forceinline__ Candidates(const float* choice, int count) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int e = i * kWarp + threadIdx.x;
      keys[i] = e < count ? ordered(choice[e]) : 0;
    }
  }
  // Takes the first of the largest out; its place, or -1 where all are -infinity or no numbers.
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
    // The smallest place is the largest complement.
    const int at = static_cast<int>(~warp_max(~static_cast<uint32_t>(own * kWarp + threadIdx.x)));
#pragma unroll
    for (int i = 0; i < kOwn; ++i)
      if (i * kWarp + static_cast<int>(threadIdx.x) == at) keys[i] = 0;
    return at;
  }
};

// The same for any number of entries, which stay in shared memory.
template <>
struct Candidates<0> {
  float* choice;
  int count;

  __device__ __forceinline__ Candidates(float* choice, int count) : choice(choice), count(count) {}
  __device__ __forceinline__ int take_best() {
    const int at = best_of(choice, count);
    if (at == count) return -1;
    take(choice, at);
    return at;
  }
};

// Scores of the chosen as shares, which add up to `scale` where they are normalized.
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
  for (int s = threadIdx.x; s < args.used; s += kWarp) shares[s] = factor * share(s);
}

// One warp per token. kOwn: experts of a lane, 0 for any number.
template <int kOwn>
__global__ void route_kernel(const __grid_constant__ RouteArgs args, Stamp* stamps) {
  extern __shared__ float shared[];
  float *weights = shared, *choice = weights + args.experts,
        *quality = choice + args.experts;                           // [experts] × 2, [groups]
  auto* chosen = reinterpret_cast<int32_t*>(quality + args.groups); // [used]
  const DependentWork work(stamps);
  const int64_t token = blockIdx.x;
  weigh<kOwn>(args, args.x + token * args.experts, weights);
  for_own<kOwn>(args.experts, [&](int e) { choice[e] = weights[e] + (args.bias ? args.bias[e] : 0); });
  __syncwarp();
  if (args.groups > 1) drop_groups(args, choice, quality);

  Candidates<kOwn> candidates(choice, args.experts);
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
                          reinterpret_cast<int32_t*>(call.out[0]),
                          call.out[1],
                          static_cast<int>(params.experts),
                          static_cast<int>(params.used),
                          static_cast<int>(params.groups),
                          static_cast<int>(params.groups_used),
                          params.gate,
                          params.normalize,
                          params.scale};
  const auto run = [&](auto kernel) {
    const int64_t words = 2 * params.experts + params.groups + params.used;
    launch(kernel, static_cast<unsigned>(call.rows), kWarp, words * sizeof(float), args, launch.stamps());
  };
  if (args.experts <= 4 * kWarp) return run(route_kernel<4>);
  if (args.experts <= 8 * kWarp) return run(route_kernel<8>);
  if (args.experts <= 16 * kWarp) return run(route_kernel<16>);
  run(route_kernel<0>);
}

} // namespace ridge::kernels::cuda
