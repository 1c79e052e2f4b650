// Selects an indexer's best positions: a kernel scores, another selects by radix. Each launch takes as many tokens as
// the scratch has rows for.
#include "core/host_device/best.h"
#include "kernels/cuda/attention/cached_rows.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kKeys = 64;
constexpr int kDigits = 256;

__global__ void index_score_kernel(const __grid_constant__ IndexArgs args, int first_token) {
  extern __shared__ float query[]; // [heads * k_dim], then the heads' weights
  const DependentWork work(args.stamps);
  const Cache& cache = args.cache;
  const int token = first_token + static_cast<int>(blockIdx.y), count = (args.positions[token] + 1) / args.span;
  const int first = static_cast<int>(blockIdx.x) * kKeys, lane = threadIdx.x % kWarp;
  if (first >= count) return;
  const int elements = args.heads * cache.k_dim;
  float* weights = query + elements;
  for (int i = threadIdx.x; i < elements; i += kThreads) query[i] = args.q[int64_t{token} * elements + i];
  for (int i = threadIdx.x; i < args.heads; i += kThreads)
    weights[i] = args.weights ? args.weights[int64_t{token} * args.heads + i] : 1;
  __syncthreads();
  if (cache.rotates_k()) rotate_shared(query, elements);
  const CachedSide keys = cached_keys(cache);
  const int64_t first_key = args.streams[token] * cache.rows;
  for (int key = first + static_cast<int>(threadIdx.x) / kWarp; key < min(count, first + kKeys); key += kWarps) {
    const int64_t at = (first_key + key) * cache.k_dim;
    float score = 0;
    for (int head = 0; head < args.heads; ++head) {
      float dot = 0;
      for (int i = lane; i < cache.k_dim; i += kWarp)
        dot += query[head * cache.k_dim + i] * cached_element(keys, at + i);
      score += weights[head] * fmaxf(warp_sum(dot), 0);
    }
    if (lane == 0) args.scores[int64_t{blockIdx.y} * cache.rows + key] = score;
  }
}

// Order-preserving code; NaN has the least.
__device__ __forceinline__ uint32_t ordered(float x) {
  if (x != x) return 0;
  const uint32_t bits = __float_as_uint(x);
  return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

// Finds the last chosen entry's code eight bits at a time; then all threads pass through the entries in order.
__global__ void index_choice_kernel(const __grid_constant__ IndexArgs args, int first_token) {
  __shared__ int counts[kDigits], before[kWarps + 1], digit, left;
  const DependentWork work(args.stamps);
  const int token = first_token + static_cast<int>(blockIdx.x), seen = args.positions[token] + 1;
  const int count = seen / args.span, most = args.most / args.span;
  const float* scores = args.scores + int64_t{blockIdx.x} * args.cache.rows;
  int32_t* chosen = args.chosen + int64_t{token} * args.most;
  uint32_t last = 0;
  int of_last = most; // chosen entries with this code
  for (int shift = 24; shift >= 0 && count > most; shift -= 8) {
    for (int i = threadIdx.x; i < kDigits; i += kThreads) counts[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += kThreads) {
      const uint32_t code = ordered(scores[i]);
      if (shift == 24 || code >> (shift + 8) == last >> (shift + 8)) atomicAdd(&counts[code >> shift & 255], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      left = of_last;
      for (digit = kDigits - 1; digit > 0 && counts[digit] < left; --digit) left -= counts[digit];
    }
    __syncthreads();
    last |= static_cast<uint32_t>(digit) << shift;
    of_last = left;
    __syncthreads();
  }
  int written = 0, equal = 0; // uniform over the block
  for (int base = 0; base < count; base += kThreads) {
    const int i = base + static_cast<int>(threadIdx.x), lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    const uint32_t code = i < count ? ordered(scores[i]) : 0;
    const auto rank = [&](bool flag, int& total) { // flags in earlier threads, and in all
      const unsigned flags = __ballot_sync(~0u, flag);
      if (lane == 0) before[warp] = __popc(flags);
      __syncthreads();
      int mine = __popc(flags & ((1u << lane) - 1));
      total = 0;
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp) mine += before[w];
        total += before[w];
      }
      __syncthreads();
      return mine;
    };
    int equals, takes;
    const bool is_equal = i < count && code == last;
    const int equal_rank = equal + rank(is_equal, equals);
    const bool taken = i < count && (count <= most || code > last || (is_equal && equal_rank < of_last));
    const int place = written + rank(taken, takes);
    for (int p = 0; p < args.span && taken; ++p) chosen[place * args.span + p] = i * args.span + p;
    written += takes;
    equal += equals;
  }
  written *= args.span;
  const int behind = args.tail ? seen - count * args.span : 0; // positions that have no entry yet
  for (int i = threadIdx.x; i < args.most - written; i += kThreads)
    chosen[written + i] = i < behind ? count * args.span + i : -1;
}

// Selects positions (core::IndexParams::chooses_positions): all threads look for scores above the least chosen one; one
// thread updates the heap.
__global__ void position_choice_kernel(const __grid_constant__ IndexArgs args, int first_token) {
  __shared__ unsigned candidates[kWarps];
  const DependentWork work(args.stamps);
  const int token = first_token + static_cast<int>(blockIdx.x), seen = args.positions[token] + 1, most = args.most;
  const int count = seen / args.span;
  const float* scores = args.scores + int64_t{blockIdx.x} * args.cache.rows;
  int32_t* chosen = args.chosen + int64_t{token} * most;
  if (seen <= most) {
    for (int i = threadIdx.x; i < most; i += kThreads) chosen[i] = i < seen ? i : -1;
    return;
  }
  // Positions without an entry rank first, NaN last.
  const auto code = [&](int position) {
    const int entry = position / args.span;
    return entry < count ? ordered(scores[entry]) : ~0u;
  };
  const auto better = [&](int32_t a, int32_t b) { return code(a) > code(b); };
  for (int i = threadIdx.x; i < most; i += kThreads) chosen[i] = i;
  __syncthreads();
  if (threadIdx.x == 0) core::make_heap(chosen, most, better);
  __syncthreads();
  for (int base = most; base < seen; base += kThreads) {
    const int position = base + static_cast<int>(threadIdx.x);
    const unsigned flags = __ballot_sync(~0u, position < seen && better(position, chosen[0]));
    if (threadIdx.x % kWarp == 0) candidates[threadIdx.x / kWarp] = flags;
    __syncthreads();
    for (int warp = 0; warp < kWarps && threadIdx.x == 0; ++warp)
      for (unsigned left = candidates[warp]; left != 0; left &= left - 1) {
        const int next = base + warp * kWarp + __ffs(static_cast<int>(left)) - 1;
        if (better(next, chosen[0])) core::sift(chosen, most, 0, next, better);
      }
    __syncthreads();
  }
}

} // namespace

void launch_index_choice(const Launch& launch, IndexArgs args) {
  const size_t shared = (int64_t{args.heads} * args.cache.k_dim + args.heads) * sizeof(float);
  allow_dynamic_shared_memory(index_score_kernel, shared);
  const auto blocks = static_cast<unsigned>((args.cache.rows + kKeys - 1) / kKeys);
  for (int first = 0; first < args.tokens; first += kIndexedTokens) {
    const auto tokens = static_cast<unsigned>(std::min(kIndexedTokens, args.tokens - first));
    args.stamps = launch.stamps();
    launch(index_score_kernel, dim3(blocks, tokens), kThreads, shared, args, first);
    args.stamps = launch.stamps();
    launch(args.chooses_positions ? position_choice_kernel : index_choice_kernel, tokens, kThreads, 0, args, first);
  }
}

} // namespace ridge::kernels::cuda
