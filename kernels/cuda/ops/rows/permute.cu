#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void permute_kernel(const float* x, int64_t group, const int32_t* order, int64_t columns, float* out,
                               int64_t n, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n * columns; i += index_step())
    out[i] = x[i / columns * group + order[i % columns]];
}

} // namespace

void launch_permute(const Launch& launch, const OpCall& call) {
  const int64_t group = std::get<core::PermuteParams>(call.op.params).group;
  const int64_t columns = call.weight(0).cols, n = call.rows * call.out_width(0) / columns;
  const auto* order = reinterpret_cast<const int32_t*>(call.weight_data[0]);
  launch(permute_kernel, blocks_for(launch, n * columns), kElementThreads, 0, call.in[0], group, order, columns,
         call.out[0], n, launch.stamps());
}

} // namespace ridge::kernels::cuda
