// The sum of each token's experts, weighted by their shares, and of what else is added to it.
#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__device__ __forceinline__ float value_of(const SumArgs::Term& term, int64_t token, int64_t col, int64_t width) {
  if (!term.factors) return term.scale * term.x[token * width + col];
  float sum = 0;
#pragma unroll 8
  for (int s = 0; s < term.count; ++s) {
    const float factor = term.factors[token * term.count + s];
    sum += (term.gated ? sigmoid(factor) : factor) * term.x[(token * term.count + s) * width + col];
  }
  return term.scale * sum;
}

__global__ void sum_kernel(const __grid_constant__ SumArgs args, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < args.rows * args.width; i += index_step()) {
    const int64_t token = i / args.width, col = i % args.width;
    float sum = 0;
    for (int t = 0; t < args.count; ++t) sum += value_of(args.terms[t], token, col, args.width);
    args.out[i] = sum;
  }
}

} // namespace

void launch_sum(const Launch& launch, const SumArgs& args) {
  launch(sum_kernel, blocks_for(launch, args.rows * args.width), kElementThreads, 0, args, launch.stamps());
}

void launch_expert_sum(const Launch& launch, const OpCall& call) {
  launch_sum(launch, {.terms = {{call.in[0], call.in[1], static_cast<int>(call.in_width(1))}},
                      .count = 1,
                      .out = call.out[0],
                      .rows = call.rows,
                      .width = call.out_width(0)});
}

} // namespace ridge::kernels::cuda
