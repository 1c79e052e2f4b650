// Rows of the embedding table, by token or position, scaled where the model asks for it.
#include "kernels/cuda/executor/format_kernels.h"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void scale_kernel(float* x, float scale, int64_t n, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) x[i] *= scale;
}

} // namespace

void launch_embed(const Launch& launch, const OpCall& call) {
  const auto [scale, of_positions] = std::get<core::EmbedParams>(call.op.params);
  format_kernels(call.weight(0).type)
      .embed(launch, call.weight_data[0], call.out_width(0), of_positions ? call.positions : call.token_ids,
             call.tokens, call.out[0]);
  if (scale == 1) return;
  const int64_t n = call.tokens * call.out_width(0);
  launch(scale_kernel, blocks_for(launch, n), kElementThreads, 0, call.out[0], scale, n, launch.stamps());
}

} // namespace ridge::kernels::cuda
