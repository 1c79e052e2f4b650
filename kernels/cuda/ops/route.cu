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

// A float as an integer of the same order, at least 1; what is no number comes last.
__device__ __forceinline__ uint32_t ordered(float x) {
  const uint32_t bits = __float_as_uint(x);
  return x != x ? 1 : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// How many keys of so many fours are larger than `key`, or equal where they are of the first `earlier` fours.
__device__ __forceinline__ int better_ones(const uint4* keys, int fours, int earlier, uint32_t key) {
  int better = 0;
#pragma unroll 2
  for (int i = 0; i < fours; ++i) {
    const uint4 four = keys[i];
    const uint32_t below = i < earlier ? key - 1 : key;
    better += (four.x > below) + (four.y > below) + (four.z > below) + (four.w > below);
  }
  return better;
}

// How many keys of the first kWarps warps, one a thread, are better than this thread's: larger, or equal and of a
// smaller thread; from `used` on the number is too small. Keys are at least 1, and from `experts` on those of what is
// never chosen. First a warp's are compared with one another, then its best ones with those of the other warps.
template <int kWarps>
__device__ __forceinline__ int place_of(uint32_t key, int experts, int used) {
  constexpr int kFours = kWarp / 4;
  __shared__ uint4 keys[kWarps][kFours], sorted[kWarps][kFours];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, in_four = lane % 4;
  int place = used;
  if (warp < kWarps) {
    reinterpret_cast<uint32_t*>(keys[warp])[lane] = key;
    __syncwarp();
    const uint4 own = keys[warp][lane / 4];
    place = better_ones(keys[warp], kFours, lane / 4, key) + (in_four > 0 && own.x == key) +
            (in_four > 1 && own.y == key) + (in_four > 2 && own.z == key);
    reinterpret_cast<uint32_t*>(sorted[warp])[place] = key;
  }
  __syncthreads();
  if (!__any_sync(~0u, place < used)) return used;
  const int best = min(kFours, (used + 3) / 4), warps = (experts + kWarp - 1) / kWarp;
#pragma unroll 1
  for (int other = 0; other < warps; ++other)
    if (other != warp) place += better_ones(sorted[other], best, other < warp ? best : 0, key);
  return place;
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

// A block per token. Of its threads the first kExperts have an expert each. With folded scores 256 threads read
// y, too, which have room beside a product's block.
template <int kExperts, bool kFolded>
constexpr int kRouteThreads = kFolded ? std::max(kExperts, 256) : kExperts;
template <int kExperts, bool kFolded>
__global__ void __launch_bounds__(kRouteThreads<kExperts, kFolded>)
    route_kernel(const __grid_constant__ RouteArgs args, const __grid_constant__ FoldedInput folded, Stamp* stamps) {
  constexpr int kThreads = kRouteThreads<kExperts, kFolded>;
  __shared__ float weights[kExperts], choices[kExperts], scratch[kThreads / kWarp];
  extern __shared__ float shared[];
  float* const quality = shared;                                          // [groups]
  auto* const chosen = reinterpret_cast<int32_t*>(quality + args.groups); // [used]
  const OverlappingWork work(stamps);
  const int e = threadIdx.x, token = blockIdx.x;
  const bool has_place = e < kExperts, is_expert = e < args.experts;
  const float bias = args.bias && is_expert ? args.bias[e] : 0;
#pragma unroll 1
  for (int s = threadIdx.x; s < args.used; s += kThreads)
    chosen[s] = s; // stays where weights are broken, scores no numbers
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
  float choice = is_expert ? bias + (args.by_score ? score : weight) : -INFINITY;
  if (!kFolded && args.groups > 1) {
    choices[e] = choice;
    __syncthreads();
    if (threadIdx.x < kWarp) drop_groups(args, choices, quality);
    __syncthreads();
    choice = choices[e];
  }
  const int place = place_of<kExperts / kWarp>(ordered(choice), args.experts, args.used);
  if (has_place) weights[e] = weight;
  if (place < args.used && ordered(choice) > ordered(-INFINITY)) chosen[place] = e;
  __syncthreads();
#pragma unroll 1
  for (int s = threadIdx.x; s < args.used; s += kThreads)
    store_latest(reinterpret_cast<float*>(args.ids) + token * args.used + s, __int_as_float(chosen[s]));
  if (kFolded) {
    const float late = weight_of(norm_factor<kThreads>(folded, token, scratch) * score);
    if (has_place) weights[e] = late;
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
    launch(route_kernel<kExperts, kFolded>, static_cast<unsigned>(call.rows), kRouteThreads<kExperts, kFolded>,
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
