// Stores a token's latent row: norm of c, rotation of the rest, and of the queries' matching part.
#include "kernels/cuda/attention/heads.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 128, kOwn = 4;

struct Pair {
  int first, second;
  float2 angle;

  __device__ __forceinline__ Pair(const RopeArgs& rope, int pair, int token, int position)
      : first(rope.split ? pair : 2 * pair), second(rope.split ? pair + rope.pairs : 2 * pair + 1),
        angle(pair < rope.pairs ? rope_cos_sin(rope, pair, token, position) : float2{}) {}
  __device__ __forceinline__ void rotate(const float* from, float* to) const {
    float a = from[first], b = from[second];
    rotate_pair(a, b, angle);
    to[first] = a;
    to[second] = b;
  }
};

// Rotates pairs `first`, `first` + `step` … of a head; `own` is pair `first`.
__device__ __forceinline__ void rotate_pairs(const RopeArgs& rope, const Pair& own, int first, int step, int token,
                                             int position, const float* from, float* to) {
  if (first < rope.pairs) own.rotate(from, to);
  for (int pair = first + step; pair < rope.pairs; pair += step) Pair(rope, pair, token, position).rotate(from, to);
}

// Per token: one block for the row, others with a query head per warp.
__global__ void latent_store_kernel(const __grid_constant__ LatentStoreArgs args, Stamp* stamps) {
  extern __shared__ float row[];
  __shared__ float scratch[kWarp];
  const OverlappingWork work(stamps);
  const Cache& cache = args.cache;
  const int token = blockIdx.y, position = args.positions[token];
  const int warp = threadIdx.x / kWarp, warps = kThreads / kWarp, lane = threadIdx.x % kWarp;
  const int c_dim = cache.v_dim, r_dim = cache.k_dim - cache.v_dim;
  if (blockIdx.x > 0) {
    const Pair own(args.rope, lane, token, position);
    work.wait();
    const int head = (blockIdx.x - 1) * warps + warp;
    const int64_t at = (int64_t{token} * args.q_heads + head) * r_dim;
    if (head < args.q_heads)
      rotate_pairs(args.rope, own, lane, kWarp, token, position, args.q_in + at, args.q_out + at);
    return;
  }
  const int64_t at = (args.streams[token] * cache.rows + cache.row_of(position)) * cache.k_dim;
  const float *c = args.c + int64_t{token} * c_dim, *r = args.r + int64_t{token} * r_dim;
  const auto weight_of = [&](int i) { return args.c_norm ? args.c_norm[i] : 1; };
  float x[kOwn], weight[kOwn];
#pragma unroll
  for (int j = 0; j < kOwn; ++j)
    if (const int i = threadIdx.x + j * kThreads; i < c_dim) weight[j] = weight_of(i);
  const Pair own(args.rope, args.rotate ? threadIdx.x : args.rope.pairs, token, position);
  work.wait();

#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    const int i = threadIdx.x + j * kThreads;
    x[j] = i < c_dim ? c[i] : 0;
  }
  if (args.rotate) rotate_pairs(args.rope, own, threadIdx.x, kThreads, token, position, r, row + c_dim);
  for (int i = threadIdx.x + (args.rotate ? 2 * args.rope.pairs : 0); i < r_dim; i += kThreads) row[c_dim + i] = r[i];
  float squares = 0;
#pragma unroll
  for (const float own_x : x) squares += own_x * own_x;
  for (int i = threadIdx.x + kOwn * kThreads; i < c_dim; i += kThreads) squares += c[i] * c[i];
  const float inverse =
      args.c_norm ? rsqrtf(block_sum(squares, scratch) / static_cast<float>(c_dim) + args.epsilon) : 1;
#pragma unroll
  for (int j = 0; j < kOwn; ++j)
    if (const int i = threadIdx.x + j * kThreads; i < c_dim) row[i] = x[j] * weight[j] * inverse;
  for (int i = threadIdx.x + kOwn * kThreads; i < c_dim; i += kThreads) row[i] = c[i] * weight_of(i) * inverse;
  __syncthreads();
  store_head(row, cache.k_dim, at, key_target(cache), warp, warps);
}

} // namespace

void launch_latent_store(const Launch& launch, const LatentStoreArgs& args) {
  const int heads_of_block = kThreads / kWarp, q_blocks = (args.q_heads + heads_of_block - 1) / heads_of_block;
  launch(latent_store_kernel, dim3(1 + q_blocks, args.tokens), kThreads, args.cache.k_dim * sizeof(float), args,
         launch.stamps());
}

void launch_latent_store(const Launch& launch, const OpCall& call) {
  launch_latent_store(launch, {.positions = call.positions,
                               .streams = call.streams,
                               .tokens = call.tokens,
                               .c = call.in[0],
                               .r = call.in[1],
                               .cache = call.cache});
}

} // namespace ridge::kernels::cuda
