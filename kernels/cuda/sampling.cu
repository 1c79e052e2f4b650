// One kernel. Its blocks find the best logit of each of 512 chunks of the vocabulary; the last block to finish does the
// rest: the k best of all tokens lie in the k chunks with the best maxima and reach the k-th of these, so it reads only
// those chunks again, which leaves little more than k tokens. Sorted, every filter of the chain keeps a prefix of them.
//
// Weights are added in the order and precision of core/sampler.cpp, and the random number is the same function of seed
// and place: device and host choose the same token of the same logits.
#include "core/random.h"
#include "kernels/cuda/ptx.cuh"
#include "kernels/cuda/sampling.h"

#include <cfloat>
#include <climits>

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / kWarp;
constexpr int kSharedList = 2048;
static_assert(kThreads == kSampleChunks && 2 * kMaxTopK <= kSampleChunks);

// Larger for larger floats; 0 and -0 are one.
__device__ __forceinline__ uint32_t ordered(float value) {
  const uint32_t bits = __float_as_uint(value + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float from_ordered(uint32_t key) {
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

// A logit after penalties. Contraction is spelled out of it: the host rounds every step.
__device__ __forceinline__ float penalized(const SampleArgs& args, const SampleState& s, int64_t i) {
  float logit = args.logits[i];
  if (logit > FLT_MAX) logit = FLT_MAX;
  if (!s.penalties) return logit;
  const int32_t count = args.counts[i];
  if (count == 0) return logit;
  logit = logit > 0 ? __fdiv_rn(logit, s.repeat_penalty) : __fmul_rn(logit, s.repeat_penalty);
  logit = __fsub_rn(logit, __fadd_rn(__fmul_rn(static_cast<float>(count), s.frequency_penalty), s.presence_penalty));
  return logit > FLT_MAX ? FLT_MAX : logit;
}

// The k-th largest of n different keys below 2^kBits, bit by bit. All threads take part.
template <int kBits, typename KeyAt>
__device__ uint64_t kth_largest(int k, int n, KeyAt key_at) {
  uint64_t key = 0;
  for (int bit = kBits - 1; bit >= 0; --bit) {
    const uint64_t attempt = key | uint64_t{1} << bit;
    int reaching = 0;
    for (int first = 0; first < n; first += kThreads) {
      const int i = first + threadIdx.x;
      reaching += __syncthreads_count(i < n && key_at(i) >= attempt);
    }
    if (reaching >= k) key = attempt;
  }
  return key;
}

// Lets the penalties count a token, as Sampler::accept does.
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

// Of a warp's shares, the sum of those in lower lanes.
__device__ double exclusive_sum(double share, double& total) {
  double sum = share;
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const double lower = __shfl_up_sync(~0u, sum, offset);
    if (static_cast<int>(threadIdx.x % kWarp) >= offset) sum += lower;
  }
  total = __shfl_sync(~0u, sum, kWarp - 1);
  return sum - share;
}

// Sums of weights from the first on, by one warp: each lane has an equal share of neighbouring ones.
struct Sums {
  double below, total;
  const float* weight;
  int first, end;

  __device__ Sums(const float* weight, int count) : weight(weight) {
    const int share = (count + kWarp - 1) / kWarp;
    first = min(static_cast<int>(threadIdx.x) * share, count);
    end = min(first + share, count);
    double sum = 0;
    for (int i = first; i < end; ++i) sum += weight[i];
    below = exclusive_sum(sum, total);
  }
  // The first index where reached(sum up to and with it, weight) holds, else `otherwise`.
  template <typename Reached>
  __device__ int find(Reached reached, int otherwise) const {
    double sum = below;
    int found = INT_MAX;
    for (int i = first; i < end && found == INT_MAX; ++i)
      if (reached(sum += weight[i], weight[i])) found = i;
    found = warp_reduce(found, [](int a, int b) { return min(a, b); });
    return found == INT_MAX ? otherwise : found;
  }
};

// The token of `count` sorted candidates that the number u in [0, 1) stands for. Weights are relative to the best: at
// temperature 1 and at the one asked for. By one warp.
__device__ int draw(const SampleState& s, const float* weight, const float* tempered, int count, double u) {
  if (s.top_p < 1) {
    const Sums sums(weight, count);
    const double mass = sums.total * s.top_p;
    count = sums.find([&](double sum, float) { return sum >= mass; }, count - 1) + 1;
  }
  if (s.min_p > 0) count = Sums(weight, count).find([&](double, float w) { return w < s.min_p; }, count);
  const Sums sums(tempered, count);
  const double target = u * sums.total;
  // Rounding may leave the target at the very end: then the last that is possible at all.
  const int possible = sums.find([&](double, float w) { return w == 0; }, count) - 1;
  return sums.find([&](double sum, float w) { return w > 0 && sum > target; }, possible);
}

__global__ void __launch_bounds__(kThreads, 1) sample_kernel(const __grid_constant__ SampleArgs args) {
  __shared__ bool last;
  __shared__ uint64_t shared_list[kSharedList], best_list[kMaxTopK], top[kMaxTopK];
  __shared__ int chunk_of[kMaxTopK], chunk_count, list_count, best_count;
  __shared__ float weight[kMaxTopK], tempered[kMaxTopK];
  const int thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp;
  let_successor_start();
  wait_for_predecessor();
  SampleState s = *args.state;
  const int64_t chunk_size = (args.vocab + kSampleChunks - 1) / kSampleChunks;
  const int chunks = static_cast<int>((args.vocab + chunk_size - 1) / chunk_size);

  if (const int chunk = blockIdx.x * kWarps + warp; chunk < chunks) {
    const int64_t end = min((chunk + 1) * chunk_size, args.vocab);
    float best = -INFINITY;
    bool nan = false;
    constexpr int kTogether = 8; // loads in flight
    for (int64_t first = chunk * chunk_size + lane; first < end; first += kTogether * kWarp) {
      float logit[kTogether];
#pragma unroll
      for (int k = 0; k < kTogether; ++k)
        logit[k] = first + k * kWarp < end ? penalized(args, s, first + k * kWarp) : -INFINITY;
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        nan |= logit[k] != logit[k];
        best = fmaxf(best, logit[k]);
      }
    }
    best = warp_reduce(best, [](float a, float b) { return fmaxf(a, b); });
    nan = __any_sync(~0u, nan);
    if (lane == 0) args.chunk_best[chunk] = nan ? NAN : best;
  }
  __threadfence();
  __syncthreads();
  if (thread == 0) last = atomicAdd(args.ticket, 1) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();

  // The chunks with the k best maxima: of equal ones the first, as a lower token comes before an equal higher one. With
  // more than 512 tokens there are more chunks than k, with fewer a chunk is a token.
  const float best = thread < chunks ? __ldcg(args.chunk_best + thread) : -INFINITY;
  const bool nan = __syncthreads_or(best != best);
  const uint64_t chunk_key = uint64_t{ordered(best)} << 9 | (kSampleChunks - 1 - thread);
  const int wanted = min(s.top_k, chunks);
  if (thread == 0) chunk_count = list_count = best_count = 0;
  const uint64_t chunk_bound = kth_largest<41>(wanted, chunks, [&](int) { return chunk_key; });
  if (thread < chunks && chunk_key >= chunk_bound) chunk_of[atomicAdd(&chunk_count, 1)] = thread;
  __syncthreads();
  const float bound = from_ordered(static_cast<uint32_t>(chunk_bound >> 9));
  for (int c = warp; c < wanted; c += kWarps) {
    const int64_t first = chunk_of[c] * chunk_size, end = min(first + chunk_size, args.vocab);
    for (int64_t i = first + lane; i < end; i += kWarp) {
      const float logit = penalized(args, s, i);
      if (!(logit >= bound && logit > -INFINITY)) continue;
      const int at = atomicAdd(&list_count, 1);
      const uint64_t key = uint64_t{ordered(logit)} << 32 | (0xffffffffu - static_cast<uint32_t>(i));
      args.list[at] = key;
      if (at < kSharedList) shared_list[at] = key;
    }
  }
  __syncthreads();

  const int listed = list_count, kept = min(s.top_k, listed);
  const uint64_t* list = listed <= kSharedList ? shared_list : args.list;
  int left = listed;
  if (listed > kThreads) { // many equal ones: leave exactly the best
    const uint64_t least = kth_largest<64>(kept, listed, [&](int i) { return list[i]; });
    for (int i = thread; i < listed; i += kThreads)
      if (list[i] >= least) best_list[atomicAdd(&best_count, 1)] = list[i];
    __syncthreads();
    list = best_list;
    left = kept;
  }
  if (thread < left) {
    int rank = 0;
    for (int i = 0; i < left; ++i) rank += list[i] > list[thread];
    if (rank < kept) top[rank] = list[thread];
  }
  __syncthreads();
  if (thread < kept) {
    const float below_best = from_ordered(top[thread] >> 32) - from_ordered(top[0] >> 32);
    weight[thread] = expf(below_best);
    tempered[thread] = expf(below_best / s.temp);
  }
  __syncthreads();
  if (warp != 0) return;
  const bool usable = kept > 0 && !nan;
  int at = 0;
  if (usable && s.temp > 0) at = draw(s, weight, tempered, kept, core::uniform(s.seed, s.draws++));
  if (lane != 0) return;
  const int32_t token = usable ? static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(top[at])) : 0;
  if (usable) accept(args, s, token);
  args.chosen[s.step++ % 2] = usable ? token : -1;
  *args.token = token;
  *args.position = s.position++;
  *args.state = s;
  *args.ticket = 0;
}

} // namespace

void launch_sample(const Launch& launch, const SampleArgs& args) {
  launch(sample_kernel, kSampleChunks / kWarps, kThreads, 0, args);
}

} // namespace ridge::kernels::cuda
