// The choice of experts beside the product that makes a folded router's scores (router/folded_router.h): a block of the
// same kernel for each token. It runs, its instructions fetched, when the scores come, so that the experts are known
// before the product ends. A kernel of its own has room only when blocks of the product end.
//
// It waits for blocks of its own grid. These have started, or will: the grid has at most a block for each
// multiprocessor, nothing in front waits for it, and what is behind starts when all of its blocks have. It is the last
// one, so that the others come first even where multiprocessors are taken away.
#pragma once

#include "kernels/cuda/matvec/weight_ring.cuh"
#include "kernels/cuda/router/choice.cuh"

namespace ridge::kernels::cuda {

// The factor of folded scores, 1 / rms(y), as soon as y is there; and the gate's product with norm(y).
__device__ __forceinline__ float norm_factor(const RouterRows& router, const float* y, int token, float* scratch) {
  float squares = 0, gate = 0;
#pragma unroll 1
  for (int i = 4 * static_cast<int>(threadIdx.x); i < router.width; i += 4 * kMatvecThreads) {
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

static_assert(kMostFoldedExperts % kWarp == 0 && kMostFoldedExperts <= kMatvecThreads);

// The block of `token`. Where the factor changes no order, experts are chosen before y is there.
__device__ __forceinline__ void choose_experts(const MatvecArgs& args, const RouterRows& router, int token) {
  extern __shared__ uint4 shared[];
  auto& memory = *reinterpret_cast<ChoiceMemory<kMostFoldedExperts, kMatvecThreads>*>(shared);
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
  stamp(args.stamps, kMayGoOn);
  float choice = score;
#pragma unroll 1 // or there would be two choices, one of them behind the other's code
  for (int turn = 0; turn < 2; ++turn) {
    if (turn == (router.needs_y ? 1 : 0)) {
      choose(route, token, choice, memory);
      continue;
    }
    const float factor =
        norm_factor(router, args.segment[0].out + token * args.segment[0].out_stride, token, memory.scratch);
    if (is_expert) score = factor * score + score_bias;
    const float weight = gate_weight(route, score, memory.scratch);
    if (is_expert) choice = choice_bias + choice_weight(route, score, weight);
    if (e < kMostFoldedExperts) memory.weights[e] = weight;
  }
  __syncthreads();
  store_shares(route, token, memory);
  stamp(args.stamps, kEnds);
  wait_for_predecessor(); // a kernel that waits for this one thereby waits for those before it
}

} // namespace ridge::kernels::cuda
