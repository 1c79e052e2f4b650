// Stores index keys; of an entry's positions only the last one's key.
#include "kernels/cuda/attention/heads.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void index_store_kernel(const float* keys, const int32_t* positions, const int32_t* streams, Cache cache,
                                   int span, Stamp* stamps) {
  const DependentWork work(stamps);
  const int64_t token = blockIdx.x;
  const int position = positions[token];
  if (position % span != span - 1) return;
  const int64_t at = (streams[token] * cache.rows + position / span) * cache.k_dim;
  store_head(keys + token * cache.k_dim, cache.k_dim, at, key_target(cache), threadIdx.x / kWarp, kThreads / kWarp);
}

} // namespace

void launch_index_store(const Launch& launch, const OpCall& call) {
  const int64_t span = call.program.kv_layers[std::get<core::KvParams>(call.op.params).layer].span;
  launch(index_store_kernel, static_cast<unsigned>(call.tokens), kThreads, 0, call.in[0], call.positions, call.streams,
         call.cache, static_cast<int>(span), launch.stamps());
}

} // namespace ridge::kernels::cuda
