// Embedding rows, scaled and with a bias; tokens with a given row use that.
#include "kernels/cuda/formats/format_kernels.h"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

// ids null: none.
struct Given {
  const int32_t* ids;
  const float* rows;
  int64_t width;
  bool scaled;
};

__global__ void scale_kernel(float* x, float scale, const float* bias, Given given, int64_t width, int64_t n,
                             Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int id = given.ids ? given.ids[i / width] : 0;
    const float value = id < 0 ? given.rows[(-1 - int64_t{id}) * given.width + i % width] : x[i];
    x[i] = __fadd_rn(__fmul_rn(value, id < 0 && !given.scaled ? 1 : scale), bias ? bias[i % width] : 0);
  }
}

} // namespace

void launch_embed(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::EmbedParams>(call.op.params);
  format_kernels(call.weight(0).type)
      .embed(launch, call.weight_data[0], call.out_width(0), params.of_positions ? call.positions : call.token_ids,
             call.tokens, call.out[0]);
  const float* bias = call.op.weights.size() > 1 ? call.vector(1) : nullptr;
  const bool gives = call.given_rows && !params.of_positions && params.rows != core::RowUse::none;
  if (params.scale == 1 && !bias && !gives) return;
  const int64_t width = call.out_width(0), n = call.tokens * width;
  const Given given = {gives ? call.token_ids : nullptr, call.given_rows, call.program.row_width,
                       params.rows == core::RowUse::scaled};
  launch(scale_kernel, blocks_for(launch, n), kElementThreads, 0, call.out[0], params.scale, bias, given, width, n,
         launch.stamps());
}

} // namespace ridge::kernels::cuda
