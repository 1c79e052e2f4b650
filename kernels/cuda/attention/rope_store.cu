// Norm, rotation and storing of q, k and v heads.
#include "kernels/cuda/attention/heads.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kMaxThreads = 256;

// In all threads of the block.
__device__ __forceinline__ float inverse_rms(const float* x, int dim, float epsilon, float* scratch) {
  float squares = 0;
  for (int i = threadIdx.x; i < dim; i += blockDim.x) squares += x[i] * x[i];
  return rsqrtf(block_sum(squares, scratch) / static_cast<float>(dim) + epsilon);
}

// Grid: heads of q, k and v; tokens.
__global__ void rope_store_kernel(const __grid_constant__ RopeStoreArgs args, Stamp* stamps) {
  __shared__ float scratch[kWarp];
  extern __shared__ float head[];
  const int token = blockIdx.y, position = args.positions[token];
  const int warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const Cache& cache = args.cache;
  int h = blockIdx.x;
  const int64_t stream = args.streams[token];
  const bool is_q = args.q_in && h < args.q_heads;
  if (args.q_in && !is_q) h -= args.q_heads;
  const bool is_k = !is_q && args.k_in && h < args.k_heads;
  if (args.k_in && !is_q && !is_k) h -= args.k_heads;
  const bool rotates = args.rotate && (is_q || is_k);
  const int own_pair = threadIdx.x; // its angle is known before the wait
  const float2 own_angle =
      rotates && own_pair < args.rope.pairs ? rope_cos_sin(args.rope, own_pair, token, position) : float2{};
  const DependentWork work(stamps);

  if (!is_q && !is_k) {
    const float* v = args.v_in + (int64_t{token} * cache.heads + h) * cache.v_dim;
    const int64_t at = ((stream * cache.heads + h) * cache.rows + cache.row_of(position)) * cache.v_dim;
    if (args.normalizes_v) {
      const float inverse = inverse_rms(v, cache.v_dim, args.epsilon, scratch);
      for (int i = threadIdx.x; i < cache.v_dim; i += blockDim.x) head[i] = v[i] * inverse;
      __syncthreads();
      v = head;
    }
    store_head(v, cache.v_dim, at, value_target(cache), warp, warps);
    return;
  }
  const int heads = is_q ? args.q_heads : args.k_heads, dim = args.head_dim;
  const int64_t in_at = (int64_t{token} * heads + h) * dim;
  const float* x = (is_q ? args.q_in : args.k_in) + in_at;
  const float* norm = is_q ? args.q_norm : args.k_norm;
  const float inverse = norm ? inverse_rms(x, dim, args.epsilon, scratch) : 1;
  for (int i = threadIdx.x; i < dim; i += blockDim.x) head[i] = norm ? x[i] * inverse * norm[i] : x[i];
  __syncthreads();
  if (rotates) {
    const RopeArgs& rope = args.rope;
    for (int pair = own_pair; pair < rope.pairs; pair += blockDim.x) {
      const int first = rope.split ? pair : 2 * pair, second = rope.split ? pair + rope.pairs : 2 * pair + 1;
      rotate_pair(head[first], head[second], pair == own_pair ? own_angle : rope_cos_sin(rope, pair, token, position));
    }
    __syncthreads();
  }
  if (float* out = is_q ? args.q_out : args.k_out)
    for (int i = threadIdx.x; i < dim; i += blockDim.x) out[in_at + i] = head[i];
  const int64_t at = ((stream * cache.heads + h) * cache.rows + cache.row_of(position)) * cache.k_dim;
  if (!is_q && args.store) store_head(head, dim, at, key_target(cache), warp, warps);
}

} // namespace

void launch_rope_store(const Launch& launch, const RopeStoreArgs& args) {
  const int blocks =
      (args.q_in ? args.q_heads : 0) + (args.k_in ? args.k_heads : 0) + (args.v_in ? args.cache.heads : 0);
  const int threads = std::clamp((args.head_dim / 2 + kWarp - 1) / kWarp * kWarp, kWarp, kMaxThreads);
  launch(rope_store_kernel, dim3(blocks, args.tokens), threads, args.head_dim * sizeof(float), args, launch.stamps());
}

} // namespace ridge::kernels::cuda
