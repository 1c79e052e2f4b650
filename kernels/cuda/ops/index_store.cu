// Index keys into a layer's cache.
#include "kernels/cuda/attention/heads.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 128;

// One block per token.
__global__ void index_store_kernel(const float* keys, const int32_t* positions, const int32_t* streams, Cache cache,
                                   Stamp* stamps) {
  const DependentWork work(stamps);
  const int64_t token = blockIdx.x, at = (streams[token] * cache.context + positions[token]) * cache.k_dim;
  store_head(keys + token * cache.k_dim, cache.k_dim, at, cache.k, cache.k_half, cache.k_scales, threadIdx.x / kWarp,
             kThreads / kWarp);
}

} // namespace

void launch_index_store(const Launch& launch, const OpCall& call) {
  launch(index_store_kernel, static_cast<unsigned>(call.tokens), kThreads, 0, call.in[0], call.positions, call.streams,
         call.cache, launch.stamps());
}

} // namespace ridge::kernels::cuda
