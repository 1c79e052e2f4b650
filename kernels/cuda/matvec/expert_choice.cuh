// Chooses experts in the kernel that makes a folded router's scores (router/folded_router.h): one block per token,
// already running when they arrive. A separate kernel would get room only when the product ends.
//
// The block waits for others of its grid. They always run: the grid has at most one block per multiprocessor, no kernel
// in front waits for it, and successors start only after all its blocks have started. It is last, so the others start
// first even if multiprocessors are taken away.
#pragma once

#include "kernels/cuda/matvec/weight_ring.cuh"
#include "kernels/cuda/router/choice.cuh"

namespace ridge::kernels::cuda {

// Returns 1 / rms(y); also publishes the gate's product with norm(y).
__device__ __forceinline__ float norm_factor(const RouterRows& router, const float* y, int token, float* scratch) {
  float squares = 0, gate = 0;
#pragma unroll 1
  for (int i = 4 * static_cast<int>(threadIdx.x); i < router.width; i += 4 * static_cast<int>(blockDim.x)) {
    float4 v = load_latest_4(y + i), w = {};
    if (router.gate) w = *reinterpret_cast<const float4*>(router.gate + i);
    while (is_sentinel(v)) v = load_latest_4(y + i);
    squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    gate += v.x * w.x + v.y * w.y + v.z * w.z + v.w * w.w;
  }
  const float factor = rsqrtf(block_sum(squares, scratch) / static_cast<float>(router.width) + router.epsilon);
  if (router.gate_out) {
    const float product = factor * block_sum(gate, scratch);
    if (threadIdx.x == 0) store_latest(router.gate_out + token, product);
  }
  return factor;
}

static_assert(kMaxFoldedExperts % kWarp == 0 && kMaxFoldedExperts <= kLeastJoinedWarps * kWarp);

// Chooses before y arrives if the factor cannot change the order.
__device__ __forceinline__ void choose_experts(const MatvecArgs& args, const RouterRows& router, int token) {
  extern __shared__ uint4 shared[];
  auto& memory = *reinterpret_cast<ChoiceMemory<kMaxFoldedExperts, kMatvecThreads>*>(shared);
  const RouteArgs& route = router.route;
  let_successor_start();
  stamp(args.stamps, kStarts);
  set_default_choice(route, memory);
  const int e = threadIdx.x;
  const bool is_expert = e < route.experts;
  const float score_bias = router.bias && is_expert ? router.bias[e] : 0;
  const float choice_bias = route.bias && is_expert ? route.bias[e] : 0;
  const float* from = route.scores + int64_t{token} * route.experts + e;
  float score = is_expert ? load_latest(from) : -INFINITY;
  while (is_sentinel(score)) score = load_latest(from);
  stamp(args.stamps, kPredecessorDone);
  float choice = score;
#pragma unroll 1 // unrolled, the choice's code would exist twice
  for (int turn = 0; turn < 2; ++turn) {
    if (turn == (router.choice_needs_y ? 1 : 0)) {
      choose(route, token, choice, memory);
      continue;
    }
    const float factor =
        norm_factor(router, args.segment[0].out + token * args.segment[0].out_stride, token, memory.scratch);
    if (is_expert) score = factor * score + score_bias;
    const float weight = gate_weight(route, score, memory.scratch);
    if (is_expert) choice = choice_bias + choice_weight(route, score, weight);
    if (e < kMaxFoldedExperts) memory.weights[e] = weight;
  }
  __syncthreads();
  store_shares(route, token, memory);
  stamp(args.stamps, kEnds);
  wait_for_predecessor(); // waiting for this kernel then includes its predecessors
}

} // namespace ridge::kernels::cuda
