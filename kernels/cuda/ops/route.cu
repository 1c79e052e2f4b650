// Each token's experts and their shares.
//
// An expert's place among the chosen is the number of those that are better. All experts count theirs at once: to take
// the best one out again and again is a chain of two reductions for each.
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/router/folded_router.h"
#include "kernels/cuda/runtime/ptx.cuh"

#include <algorithm>
#include <cfloat>
#include <type_traits>

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

// The share of this thread's score among those of all threads, of which the others have -infinity. `scratch`: a float
// for each warp.
__device__ __forceinline__ float softmax(float score, float* scratch) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const float of_warp = warp_reduce(score, larger);
  if (lane == 0) scratch[warp] = of_warp;
  __syncthreads();
  const float of_lane = lane < static_cast<int>(blockDim.x / kWarp) ? scratch[lane] : -FLT_MAX;
  const float exponential = expf(score - warp_reduce(fmaxf(of_lane, -FLT_MAX), larger));
  __syncthreads(); // the scratch is used again
  return exponential * (1 / block_sum(exponential, scratch));
}

// Leaves the best groups of `choice`. A group is as good as its two best experts together; `quality` is scratch. A
// call, since few models have groups.
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

// How many of the experts come before number `e`: those with a larger key, and those with the same and a smaller
// number. One of kParts that count a part each.
template <int kParts>
__device__ __forceinline__ int better_ones(const uint32_t* keys, int experts, int e, int part) {
  const auto* fours = reinterpret_cast<const uint4*>(keys);
  const int own_four = e / 4, in_four = e % 4;
  const uint32_t own = keys[e];
  int better = 0;
#pragma unroll 2
  for (int i = part; i < (experts + 3) / 4; i += kParts) {
    const uint4 key = fours[i];
    const uint32_t below = i < own_four ? own - 1 : own;
    better += (key.x > below) + (key.y > below) + (key.z > below) + (key.w > below);
  }
  if (part > 0) return better;
  const uint4 key = fours[own_four];
  return better + (in_four > 0 && key.x == own) + (in_four > 1 && key.y == own) + (in_four > 2 && key.z == own);
}

// Scores of the chosen as shares, which add up to `scale` where they are normalized, each times a scale of its expert.
__device__ __forceinline__ void store_shares(const RouteArgs& args, const int32_t* ids, const float* weights,
                                             float* shares) {
  const bool softmax = args.gate == core::Gate::softmax_of_chosen;
  const auto share = [&](int s) { return softmax ? expf(weights[ids[s]] - weights[ids[0]]) : weights[ids[s]]; };
  float total = 0;
#pragma unroll 1 // mostly one round: the compiler's eight copies would have to be jumped over
  for (int s = threadIdx.x; s < args.used; s += kWarp) total += share(s);
  total = warp_sum(total);
  const float factor = softmax          ? args.scale / total
                       : args.normalize ? args.scale / fmaxf(total, 0x1p-14f) // f16's smallest normal number, as the
                                        : args.scale;                         // models' authors have it
#pragma unroll 1
  for (int s = threadIdx.x; s < args.used; s += kWarp)
    store_latest(shares + s, factor * share(s) * (args.of_expert ? args.of_expert[ids[s]] : 1));
}

// The factor of folded scores, 1 / rms(y), as soon as y is there; and the gate's product with norm(y), into gate_out.
template <int kThreads>
__device__ __forceinline__ float norm_factor(const FoldedInput& input, int token, float* scratch) {
  const float* y = input.y + int64_t{token} * input.width;
  float squares = 0, gate = 0;
#pragma unroll 1
  for (int i = 4 * threadIdx.x; i < input.width; i += 4 * kThreads) {
    float4 v = load_latest_4(y + i), w = {};
    if (input.gate) w = *reinterpret_cast<const float4*>(input.gate + i);
    while (is_sentinel(v)) v = load_latest_4(y + i);
    squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    gate += v.x * w.x + v.y * w.y + v.z * w.z + v.w * w.w;
  }
  const float factor = rsqrtf(block_sum(squares, scratch) / static_cast<float>(input.width) + input.epsilon);
  if (input.gate_out) {
    const float product = factor * block_sum(gate, scratch);
    if (threadIdx.x == 0) store_latest(input.gate_out + token, product);
  }
  return factor;
}

// A block per token, and kParts threads per expert, of which there are at most kExperts. The first warps have an expert
// in each lane; then all count who is better. With folded scores 256 threads, which have room beside a product's block.
template <int kExperts, bool kFolded>
struct RouteShape {
  static constexpr int kParts = std::clamp((kFolded ? 256 : 1024) / kExperts, 1, 4), kThreads = kExperts * kParts;
};
template <int kExperts, bool kFolded>
__global__ void __launch_bounds__(RouteShape<kExperts, kFolded>::kThreads)
    route_kernel(const __grid_constant__ RouteArgs args, const __grid_constant__ FoldedInput folded, Stamp* stamps) {
  using Shape = RouteShape<kExperts, kFolded>;
  constexpr int kParts = Shape::kParts, kThreads = Shape::kThreads;
  __shared__ __align__(16) uint32_t keys[kExperts];
  __shared__ float weights[kExperts], choices[kExperts], scratch[kThreads / kWarp];
  __shared__ int places[kExperts];
  extern __shared__ float shared[];
  float* const quality = shared;                                          // [groups]
  auto* const chosen = reinterpret_cast<int32_t*>(quality + args.groups); // [used]
  const OverlappingWork work(stamps);
  const int e = threadIdx.x % kExperts, part = threadIdx.x / kExperts, token = blockIdx.x;
  const bool is_expert = part == 0 && e < args.experts;
  const float bias = args.bias && is_expert ? args.bias[e] : 0;
#pragma unroll 1
  for (int s = threadIdx.x; s < args.used; s += kThreads)
    chosen[s] = s; // stays where weights are broken, scores no numbers
  if (part == 0) places[e] = 0;
  if (!kFolded) work.wait();

  const float* scores = args.x + int64_t{token} * args.experts;
  float score = is_expert ? load_latest(scores + e) : -INFINITY;
  if (kFolded) {
    while (is_sentinel(score)) score = load_latest(scores + e);
    stamp(stamps, kMayGoOn);
  }
  const auto weight_of = [&](float score) {
    return args.gate == core::Gate::softmax   ? softmax(score, scratch)
           : args.gate == core::Gate::sigmoid ? 1 / (1 + expf(-score))
                                              : score; // softmax_of_chosen
  };
  const float weight = kFolded ? score : weight_of(score); // the factor of folded scores changes no order
  if (part == 0) {
    const float choice = bias + (args.by_score ? score : weight);
    weights[e] = weight, choices[e] = choice;
    keys[e] = is_expert ? ordered(choice) : 0;
  }
  __syncthreads();
  if (!kFolded && args.groups > 1) {
    if (threadIdx.x < kWarp) drop_groups(args, choices, quality);
    __syncthreads();
    if (is_expert) keys[e] = ordered(choices[e]);
    __syncthreads();
  }
  const int better = better_ones<kParts>(keys, args.experts, e, part);
  if (kParts > 1) {
    atomicAdd(&places[e], better);
    __syncthreads();
  }
  if (is_expert && keys[e] > ordered(-INFINITY))
    if (const int place = kParts > 1 ? places[e] : better; place < args.used) chosen[place] = e;
  __syncthreads();
#pragma unroll 1
  for (int s = threadIdx.x; s < args.used; s += kThreads)
    store_latest(reinterpret_cast<float*>(args.ids) + token * args.used + s, __int_as_float(chosen[s]));
  if (kFolded) {
    const float late = weight_of(norm_factor<kThreads>(folded, token, scratch) * score);
    if (part == 0) weights[e] = late;
    __syncthreads();
  }
  if (threadIdx.x < kWarp) store_shares(args, chosen, weights, args.shares + int64_t{token} * args.used);
  if (kFolded) wait_for_predecessor(); // who waits for this kernel thereby waits for those before it
}

template <bool kFolded>
void route_by(const Launch& launch, const OpCall& call, const FoldedInput& folded) {
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
  const auto run = [&]<int kExperts>(std::integral_constant<int, kExperts>) {
    launch(route_kernel<kExperts, kFolded>, static_cast<unsigned>(call.rows), RouteShape<kExperts, kFolded>::kThreads,
           (args.groups + args.used) * sizeof(float), args, folded, launch.stamps());
  };
  if (args.experts <= 128) return run(std::integral_constant<int, 128>());
  if (args.experts <= 256) return run(std::integral_constant<int, 256>());
  if (args.experts <= 512) return run(std::integral_constant<int, 512>());
  static_assert(core::kMostExperts == 1024);
  run(std::integral_constant<int, 1024>());
}

} // namespace

void launch_route(const Launch& launch, const OpCall& call) { route_by<false>(launch, call, {}); }

void launch_folded_route(const Launch& launch, const FoldedInput& folded, const OpCall& call) {
  route_by<true>(launch, call, folded);
}

} // namespace ridge::kernels::cuda
