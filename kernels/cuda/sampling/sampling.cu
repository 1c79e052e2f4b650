// Warps pass the best logits of their chunks to the first block. If k groups of chunks reach a bound, so do the k best
// tokens, in the few chunks that reach it; rereading these leaves little more than k candidates. After sorting every
// filter keeps a prefix.
//
// The chain of latencies runs with a cold instruction cache: hence little code, few barriers, small blocks. Precision
// and random numbers are core/sampler.cpp's, for equal tokens.
#include "core/random.h"
#include "kernels/cuda/runtime/ptx.cuh"
#include "kernels/cuda/sampling/sampling.h"

#include <cfloat>
#include <climits>

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / kWarp;
constexpr int kGroup = kSampleChunks / kThreads;
constexpr int kListed = 512;
constexpr int kStateWords = sizeof(SampleState) / 4;
static_assert(kGroup == 4 && kMaxTopK <= kThreads && kMaxTopK <= kListed);

struct Shared {
  SampleState state;
  double random;          // in [0, 1)
  uint64_t list[kListed]; // candidates, then sums of weights
  uint16_t chunk_of[kSampleChunks];
  int chunks, listed, best;
  uint32_t highest, lowest_complement; // highest key; complement of the lowest
  // Relative to the best, at temperature 1 and the requested one.
  float weight[kMaxTopK], tempered[kMaxTopK];
  int32_t token[kMaxTopK];
};

// Order-preserving, never 0; -0 is 0. With any NaN the best is kNan.
constexpr uint32_t kNan = 0xffffffff;
__device__ __forceinline__ uint32_t ordered(float value) {
  const uint32_t bits = __float_as_uint(value + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float from_ordered(uint32_t key) {
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

__device__ __forceinline__ uint32_t warp_max(uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0u, value);
#else
  return warp_reduce(value, [](uint32_t a, uint32_t b) { return max(a, b); });
#endif
}
__device__ __forceinline__ int warp_min(int value) { return static_cast<int>(~warp_max(~value)); } // of values >= 0

// Chunk lengths differ by at most one.
__device__ __forceinline__ int chunk_begin(uint32_t chunk, uint32_t vocab) {
  return static_cast<int>(uint64_t{chunk} * vocab / kSampleChunks);
}

// A lane's logits, every 32nd up to `end`.
template <int kRows>
__device__ __forceinline__ void load_rows(const float* logits, int first, int end, float (&row)[kRows]) {
#pragma unroll
  for (int k = 0; k < kRows; ++k) row[k] = first + k * kWarp < end ? __ldcg(logits + first + k * kWarp) : -INFINITY;
}

// Results may exceed FLT_MAX. Intrinsics prevent contraction: the host rounds every step.
template <int kRows>
__device__ __forceinline__ void penalize(const SampleArgs& args, const SampleState& s, int first, float (&row)[kRows]) {
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    const int count = row[k] > -INFINITY ? __ldcg(args.counts + first + k * kWarp) : 0; // else perhaps no token
    if (count == 0) continue;
    float logit = fminf(row[k], FLT_MAX);
    logit = logit > 0 ? __fdiv_rn(logit, s.repeat_penalty) : __fmul_rn(logit, s.repeat_penalty);
    row[k] = __fsub_rn(logit, __fadd_rn(__fmul_rn(static_cast<float>(count), s.frequency_penalty), s.presence_penalty));
  }
}

// Finds a key that at least `least` and, unless keys are equal, at most `most` reach. `least` reach `low`; none is
// above `high`.
template <typename Key, typename Count>
__device__ __forceinline__ Key find_bound(Key low, Key high, int least, int most, Count reaching) {
#pragma unroll 1
  while (low < high) {
    const Key middle = high - (high - low) / 2;
    const int count = reaching(middle);
    if (count < least) {
      high = middle - 1;
    } else {
      low = middle;
      if (count <= most) break;
    }
  }
  return low;
}

// Also copies the state to shared memory.
__device__ __forceinline__ uint32_t best_of_chunk(const SampleArgs& args, Shared& shared, int chunk, uint32_t vocab) {
  constexpr int kRows = 4; // loads in flight
  const int thread = threadIdx.x, lane = thread % kWarp;
  const uint32_t word = thread < kStateWords ? __ldcg(reinterpret_cast<const uint32_t*>(args.state) + thread) : 0;
  const int longest = (vocab + kSampleChunks - 1) / kSampleChunks, end = chunk_begin(chunk + 1, vocab);
  float best = -INFINITY;
  bool nan = false;
#pragma unroll 1
  for (int row = 0, first = chunk_begin(chunk, vocab) + lane; row < longest; row += kRows * kWarp) {
    float logit[kRows];
    load_rows(args.logits, first + row, end, logit);
    if (row == 0) {
      if (thread < kStateWords) reinterpret_cast<uint32_t*>(&shared.state)[thread] = word;
      if (thread == 0) shared.chunks = shared.listed = shared.best = shared.highest = shared.lowest_complement = 0;
      __syncthreads();
    }
    if (shared.state.penalties) penalize(args, shared.state, first + row, logit);
#pragma unroll
    for (float v : logit) {
      nan |= v != v;
      best = fmaxf(best, v);
    }
  }
  return warp_max(nan ? kNan : ordered(fminf(best, FLT_MAX)));
}

// Lists tokens of found chunks with logits >= `least`; above `room` incomplete. Returns their number.
__device__ __forceinline__ int list_candidates(const SampleArgs& args, Shared& shared, uint32_t vocab, float least,
                                               uint64_t* list, int room) {
  constexpr int kChunksInFlight = 4, kRows = 2; // chunks and loads in flight
  const int lane = threadIdx.x % kWarp, chunks = shared.chunks;
  const int longest = (vocab + kSampleChunks - 1) / kSampleChunks;
#pragma unroll 1
  for (int c = threadIdx.x / kWarp; c < chunks; c += kChunksInFlight * kWarps)
#pragma unroll 1
    for (int row = lane; row - lane < longest; row += kRows * kWarp) {
      struct Rows {
        int first;
        float logit[kRows];
      } rows[kChunksInFlight];
#pragma unroll
      for (int t = 0; t < kChunksInFlight; ++t) {
        const bool real = c + t * kWarps < chunks;
        const int chunk = real ? shared.chunk_of[c + t * kWarps] : 0, end = real ? chunk_begin(chunk + 1, vocab) : 0;
        rows[t].first = chunk_begin(chunk, vocab) + row;
        load_rows(args.logits, rows[t].first, end, rows[t].logit);
      }
#pragma unroll 1
      for (int t = 0; t < kChunksInFlight && shared.state.penalties; ++t) { // one copy of the code
        penalize(args, shared.state, rows[0].first, rows[0].logit);
        const Rows last = rows[0];
#pragma unroll
        for (int i = 1; i < kChunksInFlight; ++i) rows[i - 1] = rows[i];
        rows[kChunksInFlight - 1] = last;
      }
      uint32_t hits = 0;
#pragma unroll
      for (int i = 0; i < kChunksInFlight * kRows; ++i)
        if (rows[i / kRows].logit[i % kRows] >= least) hits |= 1 << i;
      if (hits == 0) continue;
      int at = atomicAdd(&shared.listed, __popc(hits));
      if (at + __popc(hits) > room) continue;
#pragma unroll 1
      for (; hits != 0; hits &= hits - 1) {
        const uint32_t hit = hits & -hits;
        float v = 0;
        int token = 0;
#pragma unroll
        for (int i = 0; i < kChunksInFlight * kRows; ++i)
          if (hit == 1 << i) v = rows[i / kRows].logit[i % kRows], token = rows[i / kRows].first + i % kRows * kWarp;
        list[at++] = uint64_t{ordered(fminf(v, FLT_MAX))} << 32 | ~static_cast<uint32_t>(token);
      }
    }
  __syncthreads();
  return shared.listed;
}

// Draws one of `kept` candidates, by one warp; lanes have equal ranges.
__device__ __forceinline__ int draw(Shared& shared, int kept) {
  const int lane = threadIdx.x % kWarp, share = (kept + kWarp - 1) / kWarp;
  const int first = min(lane * share, kept), end = min(first + share, kept);
  double mine = 0, my_tempered = 0;
#pragma unroll 1
  for (int i = first; i < end; ++i) mine += shared.weight[i], my_tempered += shared.tempered[i];
  double sum = mine, tempered = my_tempered;
#pragma unroll 1
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const double lower = __shfl_up_sync(~0u, sum, offset), tempered_lower = __shfl_up_sync(~0u, tempered, offset);
    if (lane >= offset) sum += lower, tempered += tempered_lower;
  }
  const float top_p = shared.state.top_p, min_p = shared.state.min_p;
  const double mass = __shfl_sync(~0u, sum, kWarp - 1) * top_p;
  sum -= mine, tempered -= my_tempered;
  auto* sums = reinterpret_cast<double*>(shared.list);
  int count = kept;
#pragma unroll 1
  for (int i = first; i < end; ++i) {
    sum += shared.weight[i];
    sums[i] = tempered += shared.tempered[i];
    if (top_p < 1 && sum >= mass) count = min(count, i + 1);
    if (shared.weight[i] < min_p) count = min(count, i);
  }
  count = warp_min(count);
  __syncwarp();

  const double target = shared.random * sums[count - 1];
  int at = count;
#pragma unroll 1
  for (int i = lane; i < count && at == count; i += kWarp)
    if (shared.tempered[i] > 0 && sums[i] > target) at = i;
  at = warp_min(at);
  // Rounding may miss the end: take the last possible one.
  if (at == count)
    for (--at; at > 0 && shared.tempered[at] == 0;) --at;
  return at;
}

// As Sampler::accept.
__device__ void accept(const SampleArgs& args, SampleState& s, int32_t token) {
  if (!s.penalties || s.ring_size == 0) return;
  ++args.counts[token];
  if (s.ring_size < 0) return;
  if (s.ring_filled < s.ring_size) {
    args.ring[s.ring_filled++] = token;
    return;
  }
  --args.counts[args.ring[s.ring_oldest]];
  args.ring[s.ring_oldest] = token;
  s.ring_oldest = (s.ring_oldest + 1) % s.ring_size;
}

// kGenerating: for a generating loop.
template <bool kGenerating>
__device__ __forceinline__ void choose(const SampleArgs& args, Shared& shared, uint32_t vocab) {
  const int thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp;
  SampleState& s = shared.state;
  if (thread == 0) shared.random = core::uniform(s.seed, s.draws); // overlaps with other blocks

  float* group = args.chunk_best + kGroup * thread;
  uint32_t key[kGroup];
  do {
    const float4 bits = load_latest_4(group);
    key[0] = __float_as_uint(bits.x), key[1] = __float_as_uint(bits.y);
    key[2] = __float_as_uint(bits.z), key[3] = __float_as_uint(bits.w);
  } while (!(key[0] && key[1] && key[2] && key[3]));
  store_latest(group, float4{});
  const uint32_t best = max(max(key[0], key[1]), max(key[2], key[3]));
  const uint32_t highest = warp_max(best), lowest_complement = warp_max(~best);
  if (lane == 0) atomicMax(&shared.highest, highest), atomicMax(&shared.lowest_complement, lowest_complement);
  __syncthreads();

  const uint32_t bound = find_bound(~shared.lowest_complement, shared.highest, s.top_k, s.top_k + s.top_k / 4 + 4,
                                    [&](uint32_t attempt) { return __syncthreads_count(best >= attempt); });
  int chunks = 0;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) chunks += key[i] >= bound;
  if (chunks > 0) {
    int at = atomicAdd(&shared.chunks, chunks);
#pragma unroll
    for (int i = 0; i < kGroup; ++i)
      if (key[i] >= bound) shared.chunk_of[at++] = kGroup * thread + i;
  }
  __syncthreads();

  const float least = fmaxf(from_ordered(bound), -FLT_MAX); // above -infinity, not NaN
  uint64_t* list = shared.list;
  int listed;
#pragma unroll 1
  for (int room = kListed; (listed = list_candidates(args, shared, vocab, least, list, room)) > room; room = INT_MAX) {
    __syncthreads();
    if (thread == 0) shared.listed = 0;
    __syncthreads();
    list = args.list;
  }
  const int kept = min(s.top_k, listed);
  if (listed > kListed) { // many equal, or large k: keep the best
    const auto reaching = [&](uint64_t attempt) {
      int count = 0;
#pragma unroll 1
      for (int i = thread; i - thread < listed; i += kThreads)
        count += __syncthreads_count(i < listed && list[i] >= attempt);
      return count;
    };
    const auto worst = find_bound<uint64_t>(0, ~uint64_t{0}, kept, kept, reaching);
#pragma unroll 1
    for (int i = thread; i < listed; i += kThreads)
      if (list[i] >= worst) shared.list[atomicAdd(&shared.best, 1)] = list[i];
    __syncthreads();
    listed = kept;
  }

  constexpr int kCounters = 8; // lanes per candidate
#pragma unroll 1
  for (int first = thread / kCounters; first - thread / kCounters < listed; first += kThreads / kCounters) {
    const uint64_t mine = shared.list[min(first, listed - 1)];
    int rank = 0;
#pragma unroll 4
    for (int i = thread % kCounters; i < listed; i += kCounters) rank += shared.list[i] > mine;
    for (int lanes = 1; lanes < kCounters; lanes *= 2) rank += __shfl_xor_sync(~0u, rank, lanes);
    if (thread % kCounters != 0 || first >= listed || rank >= kept) continue;
    const float below_best = from_ordered(mine >> 32) - from_ordered(shared.highest);
    shared.token[rank] = static_cast<int32_t>(~static_cast<uint32_t>(mine));
    shared.weight[rank] = expf(below_best);
    shared.tempered[rank] = expf(below_best / s.temp);
  }
  __syncthreads();
  if (warp != 0) return;

  const bool usable = kept > 0 && shared.highest != kNan;
  const int at = usable && s.temp > 0 ? draw(shared, kept) : 0;
  if (lane == 0) {
    const int32_t token = usable ? shared.token[at] : 0;
    args.chosen[s.step++ % kChosenSlots] = usable ? token : -1;
    if constexpr (kGenerating) {
      *args.steps = s.step;
      *args.token = token;
      *args.position = *args.row_position + 1;
      *args.output = 0;
      s.draft_rejected = !usable || (args.draft_token && *args.draft_token != token);
      s.draws += usable && s.temp > 0;
      if (usable) accept(args, s, token);
    }
  }
  if constexpr (!kGenerating) return;
  __syncwarp();
  if (lane < kStateWords) reinterpret_cast<uint32_t*>(args.state)[lane] = reinterpret_cast<const uint32_t*>(&s)[lane];
}

template <bool kGenerating>
__device__ __forceinline__ void sample_row(const SampleArgs& args, Shared& shared) {
  const auto vocab = static_cast<uint32_t>(args.vocab);
  const int chunk = blockIdx.x * kWarps + threadIdx.x / kWarp;
  const uint32_t key = best_of_chunk(args, shared, chunk, vocab);
  if (threadIdx.x % kWarp == 0) store_latest(args.chunk_best + chunk, __uint_as_float(key));
  if (blockIdx.x == 0) choose<kGenerating>(args, shared, vocab);
}

// With 40 registers a block fits beside one of the matrix (matvec.cuh).
__global__ void __launch_bounds__(kThreads, 1) sample_kernel(const __grid_constant__ SampleArgs args) {
  __shared__ Shared shared;
  let_successor_start();
  wait_for_predecessor();
  if (args.follows_draft && __ldcg(&args.state->draft_rejected)) return;
  sample_row<true>(args, shared);
}

// Neighbouring blocks share a row: the first waits only for blocks that run or are next.
__global__ void __launch_bounds__(kThreads, 1) sample_rows_kernel(const __grid_constant__ SampleArgs first) {
  __shared__ Shared shared;
  const int64_t row = blockIdx.y;
  SampleArgs args = first;
  args.logits += row * args.vocab;
  args.list += row * args.vocab;
  args.chunk_best += row * kSampleChunks;
  args.state += row;
  args.chosen += row;
  sample_row<false>(args, shared);
}

} // namespace

void launch_sample(const Launch& launch, const SampleArgs& args) {
  launch(sample_kernel, kSampleChunks / kWarps, kThreads, 0, args);
}

void launch_sample_rows(const Launch& launch, const SampleArgs& first, int rows) {
  launch(sample_rows_kernel, dim3(kSampleChunks / kWarps, rows), kThreads, 0, first);
}

} // namespace ridge::kernels::cuda
