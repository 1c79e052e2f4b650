// A token's row of latent attention into a layer's cache, and what comes before it: the norm of c, the rotation of the
// part behind it, and that of the queries for this part.
#include "kernels/cuda/attention/heads.cuh"
#include "kernels/cuda/ops/op_call.h"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 128;

// A head of queries, by one warp.
__device__ __forceinline__ void rotate_head(const LatentStoreArgs& args, int64_t at, int dim, int position) {
  const RopeArgs& rope = args.rope;
  for (int pair = threadIdx.x % kWarp; pair < rope.pairs; pair += kWarp) {
    const int first = rope.split ? pair : 2 * pair, second = rope.split ? pair + rope.pairs : 2 * pair + 1;
    float a = args.q_in[at * dim + first], b = args.q_in[at * dim + second];
    rotate_pair(a, b, rope_cos_sin(rope, pair, position));
    args.q_out[at * dim + first] = a;
    args.q_out[at * dim + second] = b;
  }
}

// Per token: a block for the cache's row, and blocks with a head of the queries per warp.
__global__ void latent_store_kernel(const __grid_constant__ LatentStoreArgs args, Stamp* stamps) {
  extern __shared__ float row[]; // [k_dim]
  __shared__ float scratch[kWarp];
  const DependentWork work(stamps);
  const Cache& cache = args.cache;
  const int token = blockIdx.y, position = args.positions[token];
  const int warp = threadIdx.x / kWarp, warps = kThreads / kWarp;
  const int c_dim = cache.v_dim, r_dim = cache.k_dim - cache.v_dim;
  if (blockIdx.x > 0) {
    const int head = (blockIdx.x - 1) * warps + warp;
    if (head < args.q_heads) rotate_head(args, int64_t{token} * args.q_heads + head, r_dim, position);
    return;
  }
  const int64_t at = (args.streams[token] * cache.rows + cache.row_of(position)) * cache.k_dim;
  const float *c = args.c + int64_t{token} * c_dim, *r = args.r + int64_t{token} * r_dim;
  for (int i = threadIdx.x; i < r_dim; i += kThreads) row[c_dim + i] = r[i];
  float squares = 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < c_dim; i += kThreads) {
    const float x = c[i];
    row[i] = args.c_norm ? x * args.c_norm[i] : x;
    squares += x * x;
  }
  if (args.c_norm) {
    const float inverse = rsqrtf(block_sum(squares, scratch) / static_cast<float>(c_dim) + args.epsilon);
    for (int i = threadIdx.x; i < c_dim; i += kThreads) row[i] *= inverse;
  }
  __syncthreads();
  if (args.rotate) {
    const RopeArgs& rope = args.rope;
    for (int pair = threadIdx.x; pair < rope.pairs; pair += kThreads) {
      const int first = rope.split ? pair : 2 * pair, second = rope.split ? pair + rope.pairs : 2 * pair + 1;
      rotate_pair(row[c_dim + first], row[c_dim + second], rope_cos_sin(rope, pair, position));
    }
    __syncthreads();
  }
  store_head(row, c_dim, at, cache.k, cache.k_half, cache.k_scales, warp, warps);
  if (r_dim > 0) store_head(row + c_dim, r_dim, at + c_dim, cache.k, cache.k_half, cache.k_scales, warp, warps);
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
