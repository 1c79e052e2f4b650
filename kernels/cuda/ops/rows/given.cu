// Part of a token's given row (core::Batch::rows); zeros for tokens with an id.
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

// `rows` begins with the part; null: no rows.
__global__ void given_kernel(const int32_t* ids, const float* rows, int64_t row_width, float* out, int64_t width,
                             int64_t n, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int id = ids[i / width];
    out[i] = rows && id < 0 ? rows[(-1 - int64_t{id}) * row_width + i % width] : 0;
  }
}

} // namespace

void launch_given(const Launch& launch, const OpCall& call) {
  const int64_t width = call.out_width(0), n = call.rows * width;
  const float* rows = call.given_rows ? call.given_rows + std::get<core::GivenParams>(call.op.params).first : nullptr;
  launch(given_kernel, blocks_for(launch, n), kElementThreads, 0, call.token_ids, rows, call.program.row_width,
         call.out[0], width, n, launch.stamps());
}

} // namespace ridge::kernels::cuda
