// Latent keys into a layer's cache: c, and its rotated part behind it, where there is one.
#include "kernels/cuda/attention/heads.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 128;

// One block per token.
__global__ void latent_store_kernel(const float* c, const float* r, const int32_t* positions, const int32_t* streams,
                                    Cache cache, Stamp* stamps) {
  const DependentWork work(stamps);
  const int64_t token = blockIdx.x;
  const int c_dim = cache.v_dim, r_dim = cache.k_dim - cache.v_dim;
  const int warp = threadIdx.x / kWarp, warps = kThreads / kWarp;
  const int64_t at = (streams[token] * cache.rows + positions[token]) * cache.k_dim;
  store_head(c + token * c_dim, c_dim, at, cache.k, cache.k_half, cache.k_scales, warp, warps);
  if (r_dim > 0) store_head(r + token * r_dim, r_dim, at + c_dim, cache.k, cache.k_half, cache.k_scales, warp, warps);
}

} // namespace

void launch_latent_store(const Launch& launch, const OpCall& call) {
  launch(latent_store_kernel, static_cast<unsigned>(call.tokens), kThreads, 0, call.in[0], call.in[1], call.positions,
         call.streams, call.cache, launch.stamps());
}

} // namespace ridge::kernels::cuda
