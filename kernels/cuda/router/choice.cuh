// Chooses a token's experts. Each expert counts the better ones: parallel, where removing the best repeatedly would be
// a chain of two reductions each.
#pragma once

#include "kernels/cuda/router/route_args.h"
#include "kernels/cuda/runtime/ptx.cuh"

#include <cfloat>

namespace ridge::kernels::cuda {

template <int kExperts, int kThreads>
struct ChoiceMemory {
  static constexpr int kFours = kWarp / 4;
  uint4 keys[kExperts / kWarp][kFours], sorted[kExperts / kWarp][kFours];
  float weights[kExperts], scratch[kThreads / kWarp];
  int32_t chosen[kExperts]; // [used]
};

__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }

// Threads without a score pass -infinity. `scratch`: a float per warp.
__device__ __forceinline__ float softmax(float score, float* scratch) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const float of_warp = warp_reduce(score, larger);
  if (lane == 0) scratch[warp] = of_warp;
  __syncthreads();
  const float of_lane = lane < static_cast<int>(blockDim.x / kWarp) ? scratch[lane] : -FLT_MAX;
  const float exponential = expf(score - warp_reduce(fmaxf(of_lane, -FLT_MAX), larger));
  __syncthreads(); // before the scratch is reused
  return exponential * (1 / block_sum(exponential, scratch));
}

// Order-preserving, at least 1; NaN is least.
__device__ __forceinline__ uint32_t ordered(float x) {
  const uint32_t bits = __float_as_uint(x);
  return x != x ? 1 : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Counts keys above `key`, or equal in the first `earlier` fours.
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

// Counts better keys: larger, or equal and of an earlier thread. Results from `used` on are lower bounds. Keys are at
// least 1; threads from `experts` on are never chosen.
template <int kExperts, int kThreads>
__device__ __forceinline__ int place_of(uint32_t key, int experts, int used, ChoiceMemory<kExperts, kThreads>& memory) {
  constexpr int kFours = ChoiceMemory<kExperts, kThreads>::kFours;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, in_four = lane % 4;
  int place = used;
  if (threadIdx.x < kExperts) {
    const uint4* keys = memory.keys[warp];
    reinterpret_cast<uint32_t*>(memory.keys[warp])[lane] = key;
    __syncwarp();
    const uint4 own = keys[lane / 4];
    place = better_ones(keys, kFours, lane / 4, key) + (in_four > 0 && own.x == key) + (in_four > 1 && own.y == key) +
            (in_four > 2 && own.z == key);
    reinterpret_cast<uint32_t*>(memory.sorted[warp])[place] = key;
  }
  __syncthreads();
  if (!__any_sync(~0u, place < used)) return used;
  const int best = min(kFours, (used + 3) / 4), warps = (experts + kWarp - 1) / kWarp;
#pragma unroll 1
  for (int other = 0; other < warps; ++other)
    if (other != warp) place += better_ones(memory.sorted[other], best, other < warp ? best : 0, key);
  return place;
}

__device__ __forceinline__ int matrix_of(const RouteArgs& args, int expert) {
  return args.share_matrix == 1 ? expert : expert / args.share_matrix;
}

// Stores the `used` best experts; threads without one pass -infinity.
template <int kExperts, int kThreads>
__device__ __forceinline__ void choose(const RouteArgs& args, int token, float choice,
                                       ChoiceMemory<kExperts, kThreads>& memory) {
  const int place = place_of(ordered(choice), args.experts, args.used, memory);
  if (place < args.used && ordered(choice) > ordered(-INFINITY)) memory.chosen[place] = matrix_of(args, threadIdx.x);
  __syncthreads();
#pragma unroll 1
  for (int s = threadIdx.x; s < args.used; s += kThreads)
    store_latest(reinterpret_cast<float*>(args.ids) + token * args.used + s, __int_as_float(memory.chosen[s]));
}

template <int kExperts, int kThreads>
__device__ __forceinline__ void take_given(const RouteArgs& args, int token, ChoiceMemory<kExperts, kThreads>& memory) {
  const int32_t* given = args.table + int64_t{args.tokens[token]} * args.used;
#pragma unroll 1
  for (int s = threadIdx.x; s < args.used; s += kThreads) {
    memory.chosen[s] = given[s];
    store_latest(reinterpret_cast<float*>(args.ids) + token * args.used + s, __int_as_float(given[s]));
  }
  __syncthreads();
}

// For NaN scores, where `choose` stores nothing.
template <int kExperts, int kThreads>
__device__ __forceinline__ void set_default_choice(const RouteArgs& args, ChoiceMemory<kExperts, kThreads>& memory) {
#pragma unroll 1
  for (int s = threadIdx.x; s < args.used; s += kThreads) memory.chosen[s] = matrix_of(args, s);
}

__device__ __forceinline__ float gate_weight(const RouteArgs& args, float score, float* scratch) {
  return args.gate == core::Gate::softmax         ? softmax(score, scratch)
         : args.gate == core::Gate::sigmoid       ? 1 / (1 + expf(-score))
         : args.gate == core::Gate::root_softplus ? sqrtf(fmaxf(score, 0) + log1pf(expf(-fabsf(score))))
                                                  : score; // softmax_of_chosen
}

// The value by which experts are chosen, before bias.
__device__ __forceinline__ float choice_weight(const RouteArgs& args, float score, float weight) {
  return args.by_sigmoid ? 1 / (1 + expf(-score)) : args.by_score ? score : weight;
}

// Normalized shares add up to `scale`, before each expert's scale. Call behind a barrier.
template <int kExperts, int kThreads>
__device__ __forceinline__ void store_shares(const RouteArgs& args, int token,
                                             const ChoiceMemory<kExperts, kThreads>& memory) {
  if (threadIdx.x >= kWarp) return;
  const int32_t* const ids = memory.chosen;
  const float* const weights = memory.weights;
  float* const shares = args.shares + int64_t{token} * args.used;
  const bool softmax = args.gate == core::Gate::softmax_of_chosen;
  const auto share = [&](int s) { return softmax ? expf(weights[ids[s]] - weights[ids[0]]) : weights[ids[s]]; };
  float total = 0;
#pragma unroll 1 // mostly one round: avoids the compiler's eight copies
  for (int s = threadIdx.x; s < args.used; s += kWarp) total += share(s);
  total = warp_sum(total);
  const float factor = softmax          ? args.scale / total
                       : args.normalize ? args.scale / fmaxf(total, 0x1p-14f) // f16's smallest normal number, as in
                                        : args.scale;                         // reference code
#pragma unroll 1
  for (int s = threadIdx.x; s < args.used; s += kWarp)
    store_latest(shares + s, factor * share(s) * (args.of_expert ? args.of_expert[ids[s]] : 1));
}

} // namespace ridge::kernels::cuda
