// Latent attention without a fast kernel; over chosen positions; over recent positions with another cache's entries.
// Rows that see no key get zeros.
#include "kernels/cuda/attention/cached_rows.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kWarps = 4;

// Each warp takes every fourth key.
__global__ void plain_latent_attention_kernel(const __grid_constant__ LatentArgs args) {
  extern __shared__ float shared[]; // query [k_dim], then per warp an output [v_dim]
  __shared__ float warp_max[kWarps], warp_weight[kWarps];
  const Cache& cache = args.cache;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, head = blockIdx.x, token = blockIdx.y;
  const DependentWork work(args.stamps);
  const int64_t row = int64_t{token} * args.heads.by + head;
  const int rest = cache.k_dim - cache.v_dim;
  float* query = shared;
  float* out = shared + cache.k_dim + warp * cache.v_dim;
  for (int i = threadIdx.x; i < cache.k_dim; i += blockDim.x)
    query[i] =
        args.scale * (i < cache.v_dim ? args.q[row * cache.v_dim + i] : args.q_rest[row * rest + i - cache.v_dim]);
  for (int i = lane; i < cache.v_dim; i += kWarp) out[i] = 0;
  __syncthreads();
  if (cache.rotates_k()) rotate_shared(query, cache.k_dim);
  const auto read = [&](bool entry, int64_t key, int i) {
    const Cache& from = entry ? args.entries : cache;
    return cached_element(cached_keys(from), (args.streams[token] * from.rows + key) * from.k_dim + i);
  };
  const int32_t* chosen = args.chosen ? args.chosen + int64_t{token} * args.most : nullptr;
  const bool ahead = args.places && args.places[token].block_end > 0;
  const bool mixed = args.span > 0;
  const int position = args.positions[token];
  const int last = ahead ? args.places[token].block_end - 1 : position;
  const int first = args.window == 0 ? 0 : max(0, position + 1 - args.window);
  const RowsFrom row_of(cache, first);
  // Consecutive positions, then chosen ones or entries.
  const int near = chosen && !mixed ? 0 : last - first + 1;
  const int far = mixed && !chosen ? (position + 1) / args.span : chosen ? args.most / max(1, args.span) : 0;
  // A sink is an initial score without a value.
  const bool has_sink = args.sinks && warp == 0;
  float largest = has_sink ? args.sinks[head] : -INFINITY, sum = has_sink ? 1 : 0;
  for (int number = warp; number < near + far; number += kWarps) {
    const bool entry = mixed && number >= near;
    int64_t key = first + number;
    if (number >= near) key = chosen ? chosen[(number - near) * max(1, args.span)] : (number - near) * args.span;
    if (key < 0) break;
    key = entry ? key / args.span : chosen && !mixed ? key : row_of(static_cast<int>(key));
    float score = 0;
    for (int i = lane; i < cache.k_dim; i += kWarp) score += query[i] * read(entry, key, i);
    score = warp_sum(score);
    const float new_largest = fmaxf(largest, score), rescale_factor = expf(largest - new_largest);
    const float weight = expf(score - new_largest);
    largest = new_largest;
    sum = sum * rescale_factor + weight;
    for (int i = lane; i < cache.v_dim; i += kWarp) out[i] = out[i] * rescale_factor + weight * read(entry, key, i);
  }
  if (lane == 0) warp_max[warp] = largest, warp_weight[warp] = sum;
  __syncthreads();
  const bool none = chosen && !mixed && chosen[0] < 0;
  float block_max = -INFINITY, total = 0;
  for (int w = 0; w < kWarps; ++w) block_max = fmaxf(block_max, warp_max[w]);
  for (int w = 0; w < kWarps; ++w) total += warp_weight[w] * expf(warp_max[w] - block_max);
  for (int i = threadIdx.x; i < cache.v_dim; i += blockDim.x) {
    float value = 0;
    for (int w = 0; w < kWarps; ++w) value += shared[cache.k_dim + w * cache.v_dim + i] * expf(warp_max[w] - block_max);
    float result[] = {none || total <= 0 ? 0 : value / total};
    if (cache.rotates_k()) rotate_lanes(result);
    args.out[row * cache.v_dim + i] = result[0];
  }
}

} // namespace

void launch_plain_latent_attention(const Launch& launch, const LatentArgs& args) {
  const size_t shared = (args.cache.k_dim + kWarps * args.cache.v_dim) * sizeof(float);
  allow_dynamic_shared_memory(plain_latent_attention_kernel, shared);
  launch(plain_latent_attention_kernel, dim3(args.heads.by, args.tokens), kWarps * kWarp, shared, args);
}

} // namespace ridge::kernels::cuda
