// Selective scan of Mamba 1 and 2 token by token, state in registers; Mamba 2's prompts in chunks (chunks.cuh). State
// and weights are loaded before the wait.
#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/recurrent/chunks.cuh"
#include "kernels/cuda/recurrent/sequence.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 128, kStageTokens = 8, kElements = 16;
constexpr int kChannelTokens = 16, kChannelStates = 16, kChannels = 32; // a block's channels of Mamba 1

struct ScanArgs {
  const float *x, *b, *c, *dt;
  int64_t x_stride, b_stride, c_stride;
  const float *a, *d, *bias;
  float *out, *state; // [tokens][heads head_dim], [streams][heads][head_dim][states]
  int heads, head_dim, groups, states;
  Divisor group_heads;
  bool rate_per_state; // a is [heads][states], else [heads]
  Batch batch;

  __device__ __forceinline__ int64_t group_at(int head) const { return int64_t{group_heads.quotient(head)} * states; }
};

template <int kStates>
struct ScanStage {
  float b[kStageTokens][kStates], c[kStageTokens][kStates];
  float step[kStageTokens], decay[kStageTokens];
  int token[kStageTokens];

  __device__ __forceinline__ int fill(const ScanArgs& args, const Sequence& sequence, int head, int& next) {
    int count = 0;
    for (; next < args.batch.tokens && count < kStageTokens; next = sequence.next(next), ++count)
      if (threadIdx.x == 0) token[count] = next;
    __syncthreads();
    const int64_t group = args.group_at(head);
    for (int i = threadIdx.x; i < count * kStates; i += kThreads) {
      const int64_t from = token[i / kStates];
      b[i / kStates][i % kStates] = args.b[from * args.b_stride + group + i % kStates];
      c[i / kStates][i % kStates] = args.c[from * args.c_stride + group + i % kStates];
    }
    if (const int i = threadIdx.x; i < count) {
      step[i] = softplus(args.dt[int64_t{token[i]} * args.heads + head] + args.bias[head]);
      decay[i] = expf(step[i] * args.a[head]);
    }
    __syncthreads();
    return count;
  }
};

// states / 16 lanes share a row.
template <int kStates>
__global__ void __launch_bounds__(kThreads) scan_kernel(const __grid_constant__ ScanArgs args, Stamp* stamps) {
  constexpr int kLanes = kStates / kElements, kBlockRows = kThreads / kLanes;
  __shared__ ScanStage<kStates> stage;
  const OverlappingWork work(stamps);
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.z)};
  const int first = sequence.next(-1), head = blockIdx.y, lane = threadIdx.x % kLanes;
  if (first >= args.batch.tokens) return work.wait();
  const int row = blockIdx.x * kBlockRows + threadIdx.x / kLanes;
  const bool active = row < args.head_dim;
  const int64_t width = int64_t{args.heads} * args.head_dim, channel = int64_t{head} * args.head_dim + row;
  // Lane l has elements 4 (l + kLanes j) to + 3.
  float* state = args.state + (args.batch.streams[first] * width + channel) * kStates + 4 * lane;
  float s[kElements] = {};
  if (active && !sequence.starts(first))
#pragma unroll
    for (int j = 0; j < kElements / 4; ++j)
      *reinterpret_cast<float4*>(&s[4 * j]) = *reinterpret_cast<const float4*>(state + 4 * kLanes * j);
  const float skip = args.d[head];
  prefetch_l2(args.a + head), prefetch_l2(args.bias + head);
  work.wait();

  const auto load_x = [&](int64_t t) { return active ? args.x[t * args.x_stride + channel] : 0; };
  for (int next = first; next < args.batch.tokens;) {
    float next_x = load_x(next);
    const int count = stage.fill(args, sequence, head, next);
    for (int i = 0; i < count; ++i) {
      const int64_t t = stage.token[i];
      const float decay = stage.decay[i], x = next_x, factor = stage.step[i] * x;
      if (i + 1 < count) next_x = load_x(stage.token[i + 1]);
      float state_dot_c[4] = {};
#pragma unroll
      for (int j = 0; j < kElements / 4; ++j) {
        float b[4], c[4];
        *reinterpret_cast<float4*>(b) = *reinterpret_cast<const float4*>(&stage.b[i][4 * (lane + kLanes * j)]);
        *reinterpret_cast<float4*>(c) = *reinterpret_cast<const float4*>(&stage.c[i][4 * (lane + kLanes * j)]);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& value = s[4 * j + e];
          value = fmaf(decay, value, factor * b[e]);
          state_dot_c[e] = fmaf(value, c[e], state_dot_c[e]);
        }
      }
      const float y = warp_reduce((state_dot_c[0] + state_dot_c[1]) + (state_dot_c[2] + state_dot_c[3]),
                                  [](float x, float y) { return x + y; }, kLanes);
      if (lane == 0 && active) args.out[t * width + channel] = y + skip * x;
    }
    __syncthreads(); // the stage is refilled
  }
  if (!active) return;
#pragma unroll
  for (int j = 0; j < kElements / 4; ++j)
    *reinterpret_cast<float4*>(state + 4 * kLanes * j) = *reinterpret_cast<const float4*>(&s[4 * j]);
}

// Mamba 1: a channel is a head with its own step and a rate per state; all channels share b and c. Four lanes have four
// states each. Inputs of the next tokens are loaded while these are scanned.
class ChannelInputs {
 public:
  __device__ __forceinline__ ChannelInputs(const ScanArgs& args, int first_channel)
      : args_(args), channel_(first_channel + static_cast<int>(threadIdx.x) % kChannels) {
    bias_ = channel_ < args.heads ? args.bias[channel_] : 0;
  }

  __device__ __forceinline__ void load(const int* token, int count) {
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      const int i = row(k);
      if (i >= count || channel_ >= args_.heads) continue;
      x_[k] = args_.x[token[i] * args_.x_stride + channel_];
      dt_[k] = args_.dt[int64_t{token[i]} * args_.heads + channel_];
    }
#pragma unroll
    for (int k = 0; k < kShared; ++k) {
      const int i = shared_at(k) / kChannelStates, n = shared_at(k) % kChannelStates;
      if (i >= count) continue;
      b_[k] = args_.b[token[i] * args_.b_stride + n];
      c_[k] = args_.c[token[i] * args_.c_stride + n];
    }
  }

  struct Stage {
    float b[kChannelTokens][kChannelStates], c[kChannelTokens][kChannelStates];
    float x[kChannelTokens][kChannels], step[kChannelTokens][kChannels];
  };
  __device__ __forceinline__ void store(Stage& stage) const {
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      stage.x[row(k)][threadIdx.x % kChannels] = x_[k];
      stage.step[row(k)][threadIdx.x % kChannels] = softplus(dt_[k] + bias_);
    }
#pragma unroll
    for (int k = 0; k < kShared; ++k) {
      stage.b[shared_at(k) / kChannelStates][shared_at(k) % kChannelStates] = b_[k];
      stage.c[shared_at(k) / kChannelStates][shared_at(k) % kChannelStates] = c_[k];
    }
  }

 private:
  static constexpr int kOwn = kChannelTokens * kChannels / kThreads,
                       kShared = kChannelTokens * kChannelStates / kThreads;
  __device__ __forceinline__ static int row(int k) { return static_cast<int>(threadIdx.x) / kChannels + 4 * k; }
  __device__ __forceinline__ static int shared_at(int k) { return static_cast<int>(threadIdx.x) + kThreads * k; }
  static_assert(kThreads / kChannels == 4);

  const ScanArgs& args_;
  int channel_;
  float bias_, x_[kOwn] = {}, dt_[kOwn] = {}, b_[kShared] = {}, c_[kShared] = {};
};

__global__ void __launch_bounds__(kThreads) channel_scan_kernel(const __grid_constant__ ScanArgs args, Stamp* stamps) {
  __shared__ ChannelInputs::Stage stage;
  __shared__ int token[2][kChannelTokens];
  const OverlappingWork work(stamps);
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.y)};
  int next = sequence.next(-1);
  if (next >= args.batch.tokens) return work.wait();
  const int own = threadIdx.x / 4, lane = threadIdx.x % 4, first_channel = blockIdx.x * kChannels;
  const int channel = first_channel + own;
  const bool active = channel < args.heads;
  auto* state = reinterpret_cast<float4*>(
      args.state + (int64_t{args.batch.streams[next]} * args.heads + channel) * kChannelStates + 4 * lane);
  float4 s = {}, rate = {};
  if (active) rate = *reinterpret_cast<const float4*>(args.a + int64_t{channel} * kChannelStates + 4 * lane);
  if (active && !sequence.starts(next)) s = *state;
  const float skip = active ? args.d[channel] : 0;
  ChannelInputs inputs(args, first_channel);
  work.wait();

  const auto list_tokens = [&](int* list) {
    int count = 0;
    for (; next < args.batch.tokens && count < kChannelTokens; next = sequence.next(next), ++count)
      if (threadIdx.x == 0) list[count] = next;
    return count;
  };
  int count = list_tokens(token[0]), coming = 0;
  __syncthreads();
  inputs.load(token[0], count);
  for (int at = 0; count > 0; at ^= 1, count = coming) {
    inputs.store(stage);
    coming = list_tokens(token[at ^ 1]);
    __syncthreads();
    inputs.load(token[at ^ 1], coming);
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      const float4 b = *reinterpret_cast<const float4*>(&stage.b[i][4 * lane]);
      const float4 c = *reinterpret_cast<const float4*>(&stage.c[i][4 * lane]);
      const float step = stage.step[i][own], x = stage.x[i][own], factor = step * x;
      s.x = fmaf(expf(step * rate.x), s.x, factor * b.x);
      s.y = fmaf(expf(step * rate.y), s.y, factor * b.y);
      s.z = fmaf(expf(step * rate.z), s.z, factor * b.z);
      s.w = fmaf(expf(step * rate.w), s.w, factor * b.w);
      const float y = warp_reduce(
          fmaf(s.x, c.x, s.y * c.y) + fmaf(s.z, c.z, s.w * c.w), [](float x, float y) { return x + y; }, 4);
      if (lane == 0 && active) args.out[int64_t{token[at][i]} * args.heads + channel] = y + skip * x;
    }
    __syncthreads(); // the stage is refilled
  }
  if (active) *state = s;
}

// For any number of states, in memory.
__global__ void plain_scan_kernel(const __grid_constant__ ScanArgs args, Stamp* stamps) {
  const DependentWork work(stamps);
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.z)};
  const int first = sequence.next(-1), head = blockIdx.y, row = blockIdx.x * kThreads + threadIdx.x;
  if (first >= args.batch.tokens || row >= args.head_dim) return;
  const int64_t width = int64_t{args.heads} * args.head_dim, channel = int64_t{head} * args.head_dim + row;
  const int64_t group = args.group_at(head);
  float* state = args.state + (args.batch.streams[first] * width + channel) * args.states;
  for (int64_t t = first; t < args.batch.tokens; t = sequence.next(static_cast<int>(t))) {
    const float step = softplus(args.dt[t * args.heads + head] + args.bias[head]);
    const float x = args.x[t * args.x_stride + channel];
    const bool starts = sequence.starts(static_cast<int>(t));
    float sum = args.d[head] * x;
    for (int n = 0; n < args.states; ++n) {
      const float forget = expf(step * args.a[args.rate_per_state ? head * args.states + n : head]);
      state[n] = (starts ? 0 : forget * state[n]) + step * x * args.b[t * args.b_stride + group + n];
      sum += state[n] * args.c[t * args.c_stride + group + n];
    }
    args.out[t * width + channel] = sum;
  }
}

ChunkArgs chunks_of(const ScanArgs& args) {
  return {.q = args.c,
          .k = args.b,
          .v = args.x,
          .q_stride = args.c_stride,
          .k_stride = args.b_stride,
          .v_stride = args.x_stride,
          .alpha = args.dt,
          .a = args.a,
          .bias = args.bias,
          .beta = nullptr,
          .skip = args.d,
          .out = args.out,
          .state = args.state,
          .positions = args.batch.positions,
          .streams = args.batch.streams,
          .tokens = args.batch.tokens,
          .heads = args.heads,
          .rows = args.head_dim,
          .k_heads = args.groups,
          .neighbors_share = true,
          .epsilon = 0};
}

} // namespace

void launch_scan(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::ScanParams>(call.op.params);
  const ScanArgs args = {call.in[0] + params.x_at,
                         call.in[1] + params.b_at,
                         call.in[2] + params.c_at,
                         call.in[3],
                         call.in_width(0),
                         call.in_width(1),
                         call.in_width(2),
                         call.vector(0),
                         call.vector(1),
                         call.vector(2),
                         call.out[0],
                         call.state,
                         static_cast<int>(params.heads),
                         static_cast<int>(params.head_dim),
                         static_cast<int>(params.groups),
                         static_cast<int>(params.states),
                         Divisor(params.heads / params.groups),
                         call.weight(0).cols != params.heads,
                         {call.positions, call.streams, call.tokens, call.sequences.kind}};
  if (call.sequences.kind == Sequences::Kind::one && !call.exact && !args.rate_per_state) {
    const ChunkArgs chunks = chunks_of(args);
    if (takes_chunks(chunks, args.states)) return launch_chunks<false>(launch, chunks, args.states);
  }
  if (args.rate_per_state && args.head_dim == 1 && args.groups == 1 && args.states == kChannelStates)
    return launch(channel_scan_kernel, dim3((args.heads + kChannels - 1) / kChannels, call.sequences.count), kThreads,
                  0, args, launch.stamps());
  const auto run = [&](auto kernel, int rows) {
    launch(kernel, dim3((args.head_dim + rows - 1) / rows, args.heads, call.sequences.count), kThreads, 0, args,
           launch.stamps());
  };
  const auto run_states = [&]<int kStates>() { run(scan_kernel<kStates>, kThreads / (kStates / kElements)); };
  switch (args.rate_per_state ? 0 : args.states) {
  case 16: return run_states.operator()<16>();
  case 64: return run_states.operator()<64>();
  case 128: return run_states.operator()<128>();
  case 256: return run_states.operator()<256>();
  default: return run(plain_scan_kernel, kThreads);
  }
}

} // namespace ridge::kernels::cuda
