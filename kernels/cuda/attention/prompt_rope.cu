// launch_rope_store (ops.h) for many tokens: computes each angle once per token instead of once per head, and copies
// the token's heads to shared memory first, since a warp with one head at a time waits for each.
#include "core/host_device/round_up.h"
#include "kernels/cuda/attention/heads.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// Returns where the block has `count` floats, a multiple of four, once it has passed a barrier.
__device__ __forceinline__ const float* staged(float*& to, const float* from, int count) {
  for (int i = 4 * threadIdx.x; i < count; i += 4 * kThreads)
    *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(from + i);
  return (to += count) - count;
}

template <bool kStaged>
__global__ void __launch_bounds__(kThreads) prompt_rope_kernel(const __grid_constant__ RopeStoreArgs args) {
  extern __shared__ float4 shared[];
  auto* const angles = reinterpret_cast<float2*>(shared); // [pairs]: cosine, sine
  let_successor_start();
  wait_for_predecessor();
  const int64_t token = blockIdx.x;
  const int position = args.positions[token], lane = threadIdx.x % kWarp, dim = args.head_dim;
  const RopeArgs& rope = args.rope;
  const Cache& cache = args.cache;
  const float *q = args.q_in + token * args.q_heads * dim, *k = args.k_in + token * args.k_heads * dim,
              *v = args.v_in + token * cache.heads * cache.v_dim;
  if constexpr (kStaged) {
    auto* to = reinterpret_cast<float*>(angles + (rope.pairs + 1) / 2 * 2);
    q = staged(to, q, args.q_heads * dim);
    k = staged(to, k, args.k_heads * dim);
    v = staged(to, v, cache.heads * cache.v_dim);
  }
  for (int pair = threadIdx.x; pair < rope.pairs; pair += kThreads)
    angles[pair] = rope_cos_sin(rope, pair, blockIdx.x, position);
  __syncthreads();
  const auto inverse_rms = [&](const float* x, int width) {
    float squares = 0;
    for (int i = lane; i < width; i += kWarp) squares += x[i] * x[i];
    return rsqrtf(warp_sum(squares) / static_cast<float>(width) + args.epsilon);
  };
  const int64_t cache_row = args.streams[token] * cache.heads * cache.rows + cache.row_of(position);
  for (int h = threadIdx.x / kWarp; h < args.q_heads + 2 * cache.heads; h += kThreads / kWarp) {
    const bool is_q = h < args.q_heads, is_v = h >= args.q_heads + cache.heads;
    const int head = is_q ? h : is_v ? h - args.q_heads - cache.heads : h - args.q_heads;
    if (is_v) {
      const float* x = v + head * cache.v_dim;
      __half* to = static_cast<__half*>(cache.v) + (cache_row + head * cache.rows) * cache.v_dim;
      const float scale = args.normalizes_v ? inverse_rms(x, cache.v_dim) : 1;
      for (int i = lane; i < cache.v_dim; i += kWarp) to[i] = __float2half_rn(x[i] * scale);
      continue;
    }
    const float* x = (is_q ? q : k) + head * dim;
    const float* norm = is_q ? args.q_norm : args.k_norm;
    const float inverse = norm ? inverse_rms(x, dim) : 1;
    const auto read = [&](int i) { return norm ? x[i] * inverse * norm[i] : x[i]; };
    float* q_out = args.q_out + (token * args.q_heads + head) * dim;
    __half* k_out = static_cast<__half*>(cache.k) + (cache_row + head * cache.rows) * dim;
    const auto write = [&](int i, float value) {
      if (is_q)
        q_out[i] = value;
      else
        k_out[i] = __float2half_rn(value);
    };
    for (int pair = lane; pair < rope.pairs; pair += kWarp) {
      const int first = rope.split ? pair : 2 * pair, second = rope.split ? pair + rope.pairs : 2 * pair + 1;
      float a = read(first), b = read(second);
      rotate_pair(a, b, angles[pair]);
      write(first, a);
      write(second, b);
    }
    for (int i = 2 * rope.pairs + lane; i < dim; i += kWarp) write(i, read(i));
  }
}

} // namespace

bool can_rope_prompts(const RopeStoreArgs& args) {
  return args.rotate && args.store && !args.k_out && args.k_heads == args.cache.heads &&
         args.cache.k_dim == args.head_dim && args.cache.k_half && args.cache.v_half;
}

void launch_prompt_rope(const Launch& launch, const RopeStoreArgs& args) {
  constexpr size_t kMaxShared = 48 << 10; // without opting in
  const size_t angles = core::round_up(args.rope.pairs, 2) * sizeof(float2);
  const int of_q = args.q_heads * args.head_dim, of_k = args.k_heads * args.head_dim,
            of_v = args.cache.heads * args.cache.v_dim;
  const size_t all = angles + (of_q + of_k + of_v) * sizeof(float);
  if (of_q % 4 == 0 && of_k % 4 == 0 && of_v % 4 == 0 && all <= kMaxShared)
    launch(prompt_rope_kernel<true>, static_cast<unsigned>(args.tokens), kThreads, all, args);
  else
    launch(prompt_rope_kernel<false>, static_cast<unsigned>(args.tokens), kThreads, angles, args);
}

} // namespace ridge::kernels::cuda
