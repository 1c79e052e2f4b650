// RWKV 7. A block per head; S has v fastest, for coalescing.
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/recurrent/sequence.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

struct Wkv7Args {
  const float *r, *decay, *k, *v, *direction, *rate; // [tokens][heads dim]
  float *out, *state;                                // [tokens][heads dim], [streams][heads][dim (k)][dim (v)]
  int heads, dim;
  Batch batch;
};

constexpr float kDecayScale = 0.60653066f; // exp(-1/2)

__device__ __forceinline__ float decay_of(float x) { return expf(-kDecayScale / (1 + expf(-x))); }

// Four lanes share a column of S: lane l has rows 4 (l + 4 q) to + 3. The next token's inputs are loaded meanwhile.
constexpr int kDim = 64, kLanes = 4, kThreads = kDim * kLanes;

struct Wkv7Token {
  float r[kDim], k[kDim], decay[kDim], direction[kDim], erased[kDim], v[kDim];
};

__global__ void __launch_bounds__(kThreads, 1) wkv7_kernel(const __grid_constant__ Wkv7Args args, Stamp* stamps) {
  __shared__ alignas(16) Wkv7Token token[2];
  const DependentWork work(stamps);
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.y)};
  const int first = sequence.next(-1), head = blockIdx.x, lane = threadIdx.x % kLanes, j = threadIdx.x / kLanes;
  if (first >= args.batch.tokens) return;
  const int64_t width = int64_t{args.heads} * kDim, head_at = int64_t{head} * kDim;
  float* state = args.state + (args.batch.streams[first] * width + head_at) * kDim + j;
  float s[kDim / kLanes];
  const auto row = [&](int i) { return 4 * (lane + kLanes * (i / 4)) + i % 4; };
#pragma unroll
  for (int i = 0; i < kDim / kLanes; ++i) s[i] = state[row(i) * kDim];

  // Each pair of warps loads one or two inputs.
  const int input = threadIdx.x / kDim, element = threadIdx.x % kDim;
  const float* const from = input == 0 ? args.r : input == 1 ? args.k : input == 2 ? args.decay : args.direction;
  float loaded = 0, second = 0;
  const auto load = [&](int t) {
    const int64_t at = t * width + head_at + element;
    loaded = from[at];
    if (input == 0) second = args.v[at];
    if (input == 3) second = args.rate[at];
  };
  const auto store = [&](Wkv7Token& to) {
    if (input == 0) to.r[element] = loaded, to.v[element] = second;
    if (input == 1) to.k[element] = loaded;
    if (input == 2) to.decay[element] = decay_of(loaded);
    if (input == 3) to.direction[element] = loaded, to.erased[element] = second * loaded;
  };
  const auto sum_of_lanes = [](float x) {
    return warp_reduce(
        x, [](float x, float y) { return x + y; }, kLanes);
  };
  load(first);
  for (int t = first, at = 0; t < args.batch.tokens; at ^= 1) {
    const Wkv7Token& now = token[at];
    store(token[at]);
    __syncthreads();
    const int next = sequence.next(t);
    if (next < args.batch.tokens) load(next);
    const bool starts = sequence.starts(t);
    float found = 0, sum = 0;
#pragma unroll
    for (int i = 0; i < kDim / kLanes; ++i) {
      if (starts) s[i] = 0;
      found += now.direction[row(i)] * s[i];
    }
    found = sum_of_lanes(found);
    const float v = now.v[j];
#pragma unroll
    for (int i = 0; i < kDim / kLanes; ++i) {
      s[i] = now.decay[row(i)] * s[i] + now.k[row(i)] * v - now.erased[row(i)] * found;
      sum += now.r[row(i)] * s[i];
    }
    sum = sum_of_lanes(sum);
    if (lane == 0) args.out[t * width + head_at + j] = sum;
    t = next;
  }
#pragma unroll
  for (int i = 0; i < kDim / kLanes; ++i) state[row(i) * kDim] = s[i];
}

// For any dimension: a thread per column of S, which stays in memory.
__global__ void plain_wkv7_kernel(const __grid_constant__ Wkv7Args args, Stamp* stamps) {
  extern __shared__ float shared[]; // [5][dim]: r, k, decays, d, rate * d
  const DependentWork work(stamps);
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.y)};
  const int first = sequence.next(-1), head = blockIdx.x, j = threadIdx.x, dim = args.dim;
  if (first >= args.batch.tokens) return;
  const bool active = j < dim;
  const int64_t width = int64_t{args.heads} * dim, channel = int64_t{head} * dim + j;
  float *receptances = shared, *keys = receptances + dim, *decays = keys + dim, *direction = decays + dim,
        *erased = direction + dim;
  float* state = args.state + (args.batch.streams[first] * width + int64_t{head} * dim) * dim + j;
  for (int t = first; t < args.batch.tokens; t = sequence.next(t)) {
    const int64_t at = t * width + channel;
    __syncthreads(); // the previous token has been read
    if (active) {
      receptances[j] = args.r[at];
      keys[j] = args.k[at];
      decays[j] = decay_of(args.decay[at]);
      direction[j] = args.direction[at];
      erased[j] = args.rate[at] * args.direction[at];
    }
    __syncthreads();
    if (!active) continue;
    const bool starts = sequence.starts(t);
    const float v = args.v[at];
    float found = 0, sum = 0;
    for (int i = 0; i < dim; ++i) {
      float& value = state[int64_t{i} * dim];
      if (starts) value = 0;
      found += direction[i] * value;
    }
    for (int i = 0; i < dim; ++i) {
      float& value = state[int64_t{i} * dim];
      value = decays[i] * value + keys[i] * v - erased[i] * found;
      sum += receptances[i] * value;
    }
    args.out[at] = sum;
  }
}

} // namespace

void launch_wkv7(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::WkvParams>(call.op.params);
  const Wkv7Args args = {call.in[0],
                         call.in[1],
                         call.in[2],
                         call.in[3],
                         call.in[4],
                         call.in[5],
                         call.out[0],
                         call.state,
                         static_cast<int>(params.heads),
                         static_cast<int>(params.dim),
                         {call.positions, call.streams, call.tokens, call.sequences.kind}};
  const dim3 blocks(args.heads, call.sequences.count);
  if (args.dim == kDim) return launch(wkv7_kernel, blocks, kThreads, 0, args, launch.stamps());
  const int threads = (args.dim + kWarp - 1) / kWarp * kWarp;
  launch(plain_wkv7_kernel, blocks, threads, 5 * args.dim * sizeof(float), args, launch.stamps());
}

} // namespace ridge::kernels::cuda
