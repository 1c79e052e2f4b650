// Attention without a fast kernel, or over chosen positions. Rows that see no key get zeros.
#include "core/ops.h"
#include "kernels/cuda/attention/cached_rows.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kWarps = 4;

// Each warp takes every fourth key.
__global__ void plain_attention_kernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ float shared[]; // query [k_dim], then per warp an output [v_dim]
  __shared__ float warp_max[kWarps], warp_weight[kWarps];
  const Cache& cache = args.cache;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, head = blockIdx.x, token = blockIdx.y;
  const DependentWork work(args.stamps);
  float* query = shared;
  float* out = shared + cache.k_dim + warp * cache.v_dim;
  for (int i = threadIdx.x; i < cache.k_dim; i += blockDim.x)
    query[i] = args.q[(int64_t{token} * args.heads + head) * cache.k_dim + i] * args.scale;
  for (int i = lane; i < cache.v_dim; i += kWarp) out[i] = 0;
  __syncthreads();
  if (cache.rotates_k()) rotate_shared(query, cache.k_dim);
  const int stream = args.streams[token], position = args.positions[token];
  const auto [first, end] = args.places ? args.visible.seen_from(position, args.places[token])
                                        : Window::Span{args.visible.first_seen(position), position + 1};
  const int64_t head_at = (int64_t{stream} * cache.heads + head / (args.heads / cache.heads)) * cache.rows;
  const RowsFrom row_of(cache, first);
  const float slope = args.max_bias > 0 ? core::alibi_slope(args.max_bias, args.heads, head) : 0;
  // A sink is an initial score without a value.
  const bool has_sink = args.sinks && warp == 0;
  float largest = has_sink ? args.sinks[head] : -INFINITY, sum = has_sink ? 1 : 0;
  const CachedSide keys = cached_keys(cache), values = cached_values(cache);
  const int32_t* chosen = args.chosen ? args.chosen + int64_t{token} * args.most : nullptr;
  for (int number = chosen ? warp : first + warp; number < (chosen ? args.most : end); number += kWarps) {
    const int key = chosen ? chosen[number] : number;
    if (key < 0) break; // end of the list
    const int64_t row = head_at + row_of(key);
    float score = 0;
    for (int i = lane; i < cache.k_dim; i += kWarp) score += query[i] * cached_element(keys, row * cache.k_dim + i);
    score = warp_sum(score);
    if (args.soft_cap > 0) score = args.soft_cap * tanhf(score / args.soft_cap);
    score -= slope * static_cast<float>(abs(position - key));
    if (args.biases)
      score +=
          args.biases[head * (2 * args.reach + 1) + args.reach + max(-args.reach, min(args.reach, key - position))];
    const float new_largest = fmaxf(largest, score), rescale_factor = expf(largest - new_largest);
    const float weight = expf(score - new_largest);
    largest = new_largest;
    sum = sum * rescale_factor + weight;
    for (int i = lane; i < cache.v_dim; i += kWarp)
      out[i] = out[i] * rescale_factor + weight * cached_element(values, row * cache.v_dim + i);
  }
  if (lane == 0) warp_max[warp] = largest, warp_weight[warp] = sum;
  __syncthreads();
  const bool none = chosen && chosen[0] < 0;
  float block_max = -INFINITY, total = 0;
  for (int w = 0; w < kWarps; ++w) block_max = fmaxf(block_max, warp_max[w]);
  for (int w = 0; w < kWarps; ++w) total += warp_weight[w] * expf(warp_max[w] - block_max);
  for (int i = threadIdx.x; i < cache.v_dim; i += blockDim.x) {
    float value = 0;
    for (int w = 0; w < kWarps; ++w) value += shared[cache.k_dim + w * cache.v_dim + i] * expf(warp_max[w] - block_max);
    float result[] = {none ? 0 : value / total};
    if (cache.rotates_v()) rotate_lanes(result);
    args.out[(int64_t{token} * args.heads + head) * cache.v_dim + i] = result[0];
  }
}

} // namespace

void launch_plain_attention(const Launch& launch, const AttentionArgs& args) {
  const Cache& cache = args.cache;
  const size_t shared = (cache.k_dim + kWarps * cache.v_dim) * sizeof(float);
  allow_dynamic_shared_memory(plain_attention_kernel, shared);
  launch(plain_attention_kernel, dim3(args.heads, args.tokens), kWarps * kWarp, shared, args);
}

} // namespace ridge::kernels::cuda
