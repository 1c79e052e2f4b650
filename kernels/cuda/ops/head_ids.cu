#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

__global__ void head_ids_kernel(int32_t* ids, int64_t n, int count, Stamp* stamps) {
  const DependentWork work(stamps);
  for (int64_t i = first_index(); i < n; i += index_step()) ids[i] = static_cast<int32_t>(i % count);
}

} // namespace

void launch_head_ids(const Launch& launch, const OpCall& call) {
  const int64_t count = call.out_width(0), n = call.rows * count;
  launch(head_ids_kernel, blocks_for(launch, n), kElementThreads, 0, reinterpret_cast<int32_t*>(call.out[0]), n,
         static_cast<int>(count), launch.stamps());
}

} // namespace ridge::kernels::cuda
