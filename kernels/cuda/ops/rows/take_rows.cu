#include "kernels/cuda/ops/rows/take_rows.h"

#include "kernels/cuda/ops/elementwise.cuh"

namespace ridge::kernels::cuda {
namespace {

__global__ void take_rows_kernel(const float* from, const int32_t* which, float* out, int64_t n, int64_t width,
                                 Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t row = which[i / width];
    out[i] = row >= 0 ? from[row * width + i % width] : 0;
  }
}

} // namespace

void launch_take_rows(const Launch& launch, const float* from, const int32_t* which, float* out, int64_t count,
                      int64_t width) {
  const int64_t n = count * width;
  launch(take_rows_kernel, blocks_for(launch, n), kElementThreads, 0, from, which, out, n, width, launch.stamps());
}

} // namespace ridge::kernels::cuda
