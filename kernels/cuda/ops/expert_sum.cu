// The sum of each token's experts, weighted by their shares, and of what else is added to it.
#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

// The rows of a token but the first, kBatch of them on their way at once.
__device__ __forceinline__ float other_rows(const SumArgs::Term& term, int64_t sum_index, int64_t token, int64_t col,
                                            int64_t width) {
  constexpr int kBatch = 8;
  const float *factors = term.factors + sum_index * term.count, *x = term.x + token * term.count * width + col;
  float sum = 0;
  for (int s = 1; s < term.count; s += kBatch) {
    float factor[kBatch], value[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      factor[i] = s + i < term.count ? factors[s + i] : 0;
      value[i] = s + i < term.count ? x[(s + i) * width] : 0;
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) sum += factor[i] * value[i];
  }
  return sum;
}

// Blocks [columns, sums]: no division is in the way of the first loads.
__global__ void sum_kernel(const __grid_constant__ SumArgs args, Stamp* stamps) {
  const DependentWork work(stamps);
  const int64_t col = first_index();
  if (col >= args.width) return;
  for (int64_t at = blockIdx.y; at < args.rows * args.sums; at += gridDim.y) { // of all sums
    const int64_t token = args.sums == 1 ? at : at / args.sums, i = at * args.width + col;

    float x[SumArgs::kMostTerms], factor[SumArgs::kMostTerms], sum = 0; // of each term's first row
#pragma unroll
    for (int t = 0; t < SumArgs::kMostTerms; ++t) {
      const SumArgs::Term& term = args.terms[t];
      x[t] = t < args.count ? term.x[token * term.count * args.width + col] : 0;
      factor[t] = t < args.count && term.factors ? term.factors[at * term.count] : 1;
    }
    for (int t = 0; t < args.count; ++t)
      if (const SumArgs::Term& term = args.terms[t]; term.count > 1)
        sum += term.scale * other_rows(term, at, token, col, args.width);
#pragma unroll
    for (int t = 0; t < SumArgs::kMostTerms; ++t)
      if (t < args.count) sum += args.terms[t].scale * (args.terms[t].gated ? sigmoid(factor[t]) : factor[t]) * x[t];
    args.out[i] = sum;
  }
}

} // namespace

void launch_sum(const Launch& launch, const SumArgs& args) {
  const auto blocks = static_cast<unsigned>((args.width + kElementThreads - 1) / kElementThreads);
  const auto sums =
      static_cast<unsigned>(std::clamp<int64_t>(args.rows * args.sums, 1, launch.sm_count * 8 / blocks + 1));
  launch(sum_kernel, dim3(blocks, sums), kElementThreads, 0, args, launch.stamps());
}

void launch_expert_sum(const Launch& launch, const OpCall& call) {
  const int64_t used = std::get<core::ExpertParams>(call.op.params).used, sums = call.in_width(1) / used;
  launch_sum(launch, {.terms = {{call.in[0], call.in[1], static_cast<int>(used)}},
                      .count = 1,
                      .out = call.out[0],
                      .rows = call.rows,
                      .width = call.out_width(0) / sums,
                      .sums = sums});
}

} // namespace ridge::kernels::cuda
