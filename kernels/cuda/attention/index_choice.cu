// Selects an indexer's best positions: a kernel scores, another selects by radix. Each launch takes as many tokens as
// the scratch has rows for.
#include "core/host_device/best.h"
#include "kernels/cuda/attention/cached_rows.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kKeys = 32, kParts = kThreads / kKeys, kHeads = 8;
constexpr int kDigits = 256;
constexpr int kBlocksPerMultiprocessor = 4;

// A thread's share of a tile of keys: one key, eight heads at a time. Scores of tokens that see no more positions than
// they may choose are not needed.
__global__ void index_score_kernel(const __grid_constant__ IndexArgs args, int first_token) {
  extern __shared__ float4 aligned[];
  __shared__ float parts[kThreads];
  const DependentWork work(args.stamps);
  const Cache& cache = args.cache;
  const int token = first_token + static_cast<int>(blockIdx.y), seen = args.positions[token] + 1;
  const int count = seen / args.span;
  if (seen <= args.most || static_cast<int>(blockIdx.x) * kKeys >= count) return;
  const int fours = (cache.k_dim + 3) / 4, pitch = 4 * fours, key_pitch = pitch + 4; // no bank conflicts
  auto* const query = reinterpret_cast<float*>(aligned); // [heads][pitch], padded with zeros
  float* const keys = query + args.heads * pitch;        // [kKeys][key_pitch], likewise
  for (int i = threadIdx.x; i < args.heads * pitch; i += kThreads)
    query[i] =
        i % pitch < cache.k_dim ? args.q[(int64_t{token} * args.heads + i / pitch) * cache.k_dim + i % pitch] : 0;
  if (cache.rotates_k()) rotate_shared(query, args.heads * pitch);
  const CachedSide cached = cached_keys(cache);
  const int64_t first_key = args.streams[token] * cache.rows;
  const int own = static_cast<int>(threadIdx.x) % kKeys, part = static_cast<int>(threadIdx.x) / kKeys;
  const auto* const key = reinterpret_cast<const float4*>(keys + own * key_pitch);
  for (int first = static_cast<int>(blockIdx.x) * kKeys; first < count; first += static_cast<int>(gridDim.x) * kKeys) {
    for (int i = threadIdx.x; i < kKeys * pitch; i += kThreads) {
      const int row = first + i / pitch, column = i % pitch;
      keys[i / pitch * key_pitch + column] =
          row < count && column < cache.k_dim ? cached_element(cached, (first_key + row) * cache.k_dim + column) : 0;
    }
    __syncthreads();
    float score = 0;
    for (int head = kHeads * part; head < args.heads; head += kHeads * kParts) {
      float dot[kHeads] = {};
      for (int four = 0; four < fours; ++four) {
        const float4 k = key[four];
#pragma unroll
        for (int h = 0; h < kHeads; ++h) {
          const float4 q = aligned[min(head + h, args.heads - 1) * fours + four];
          dot[h] += q.x * k.x + q.y * k.y + q.z * k.z + q.w * k.w;
        }
      }
#pragma unroll
      for (int h = 0; h < kHeads; ++h)
        if (head + h < args.heads)
          score += (args.weights ? args.weights[int64_t{token} * args.heads + head + h] : 1) * fmaxf(dot[h], 0);
    }
    parts[threadIdx.x] = score;
    __syncthreads();
    if (part > 0 || first + own >= count) continue;
    for (int p = 1; p < kParts; ++p) score += parts[p * kKeys + own];
    args.scores[int64_t{blockIdx.y} * cache.rows + first + own] = score;
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
  const int pitch = (args.cache.k_dim + 3) / 4 * 4;
  const size_t shared = (args.heads * pitch + kKeys * (pitch + 4)) * sizeof(float);
  allow_dynamic_shared_memory(index_score_kernel, shared);
  const auto tiles = static_cast<int>((args.cache.rows + kKeys - 1) / kKeys);
  for (int first = 0; first < args.tokens; first += kIndexedTokens) {
    const int tokens = std::min(kIndexedTokens, args.tokens - first);
    const int blocks = std::clamp(kBlocksPerMultiprocessor * launch.sm_count / tokens, 1, tiles);
    args.stamps = launch.stamps();
    launch(index_score_kernel, dim3(blocks, tokens), kThreads, shared, args, first);
    args.stamps = launch.stamps();
    launch(args.chooses_positions ? position_choice_kernel : index_choice_kernel, tokens, kThreads, 0, args, first);
  }
}

} // namespace ridge::kernels::cuda
