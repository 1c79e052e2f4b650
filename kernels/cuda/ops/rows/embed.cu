// Rows of the embedding table, by token or position, scaled and with a bias where the model asks for it.
#include "kernels/cuda/executor/format_kernels.h"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

// x, of rows of `width`, times a scale, plus a bias (null: none).
__global__ void scale_kernel(float* x, float scale, const float* bias, int64_t width, int64_t n, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step())
    x[i] = __fadd_rn(__fmul_rn(x[i], scale), bias ? bias[i % width] : 0);
}

} // namespace

void launch_embed(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::EmbedParams>(call.op.params);
  format_kernels(call.weight(0).type)
      .embed(launch, call.weight_data[0], call.out_width(0), params.of_positions ? call.positions : call.token_ids,
             call.tokens, call.out[0]);
  const float* bias = call.op.weights.size() > 1 ? call.vector(1) : nullptr;
  if (params.scale == 1 && !bias) return;
  const int64_t width = call.out_width(0), n = call.tokens * width;
  launch(scale_kernel, blocks_for(launch, n), kElementThreads, 0, call.out[0], params.scale, bias, width, n, launch.stamps());
}

} // namespace ridge::kernels::cuda
