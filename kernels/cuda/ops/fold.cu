#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void fold_kernel(const float* x, float* out, int64_t rows, int64_t width, int parts, float scale,
                            Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < rows * width; i += index_step()) {
    const int64_t row = i / width, col = i % width;
    float sum = 0;
    for (int part = 0; part < parts; ++part) sum += x[(row * parts + part) * width + col];
    out[i] = scale * sum;
  }
}

} // namespace

void launch_fold(const Launch& launch, const OpCall& call) {
  const int64_t width = call.out_width(0);
  launch(fold_kernel, blocks_for(launch, call.rows * width), kElementThreads, 0, call.in[0], call.out[0], call.rows,
         width, static_cast<int>(call.in_width(0) / width), std::get<core::FoldParams>(call.op.params).scale,
         launch.stamps());
}

} // namespace ridge::kernels::cuda
