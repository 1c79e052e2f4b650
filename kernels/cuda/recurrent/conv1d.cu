// Causal convolution, a thread per channel. A prompt's chunks are at least as long as the history; only the first one's
// block reads the state, before the wait, and writes it. If outputs see later tokens there is no state.
#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/recurrent/sequence.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kMaxTaps = 256, kTokensAtOnce = 4;

struct ConvArgs {
  const float *x, *taps, *bias; // [tokens][channels], [channels][kernel], [channels] or null
  float *out, *state;           // [tokens][channels], [streams][kernel - 1][channels]
  int channels, kernel, chunk_tokens;
  core::Activation activation;
  Batch batch;
};

// Not inlined: one copy of all activations.
__device__ __noinline__ float rarely_activated(core::Activation kind, float x) { return activated(kind, x); }

__device__ __forceinline__ float activated_by(core::Activation kind, float x) {
  return kind == core::Activation::silu ? silu(x) : kind == core::Activation::identity ? x : rarely_activated(kind, x);
}

// kTaps 0: any number.
template <int kTaps>
struct Window {
  static constexpr int kRoom = kTaps > 0 ? kTaps : kMaxTaps;
  float input[kRoom], tap[kRoom]; // oldest input first
  const int taps;

  __device__ __forceinline__ Window(const ConvArgs& args, int channel) : taps(kTaps > 0 ? kTaps : args.kernel) {
#pragma unroll
    for (int i = 0; i < kRoom; ++i)
      if (i < taps) tap[i] = args.taps[int64_t{channel} * taps + i];
  }
  __device__ __forceinline__ float push(float x) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i + 1 < kRoom; ++i)
      if (i + 1 < taps) sum += tap[i] * (input[i] = input[i + 1]);
    input[taps - 1] = x;
    return sum + tap[taps - 1] * x;
  }
};

template <int kTaps>
__global__ void conv1d_kernel(const __grid_constant__ ConvArgs args, Stamp* stamps) {
  const OverlappingWork work(stamps);
  const int channel = blockIdx.x * kElementThreads + threadIdx.x;
  if (channel >= args.channels) return work.wait();
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.z)};
  const bool chunks = args.batch.kind == Sequences::Kind::one;
  const int begin = chunks ? blockIdx.y * args.chunk_tokens : sequence.next(-1);
  const int end = chunks ? min(args.batch.tokens, begin + args.chunk_tokens) : args.batch.tokens;
  if (begin >= end) return work.wait();
  const int64_t channels = args.channels;
  float* state = args.state + args.batch.streams[begin] * (args.kernel - 1) * channels + channel;
  Window<kTaps> window(args, channel);
  const int history = window.taps - 1;
  const bool starts = sequence.starts(chunks ? 0 : begin);
  const bool is_first = !chunks || begin == 0;
  const auto before = [&](int i) { return starts ? 0 : state[i * channels]; };
  if (is_first)
    for (int i = 0; i < history; ++i) window.input[i + 1] = before(i);
  const float bias = args.bias ? args.bias[channel] : 0;
  work.wait();

  const float* x = args.x + channel;
  // `at` may be before the batch.
  const auto input = [&](int at) { return at >= 0 ? x[at * channels] : before(history + at); };
  if (!is_first)
    for (int i = 0; i < history; ++i) window.input[i + 1] = input(begin + i - history);
  for (int t = begin; t < end;) {
    int token[kTokensAtOnce];
    float now[kTokensAtOnce];
#pragma unroll
    for (int j = 0; j < kTokensAtOnce; ++j) {
      token[j] = t;
      if (t >= end) continue;
      now[j] = x[t * channels];
      t = sequence.next(t);
    }
#pragma unroll
    for (int j = 0; j < kTokensAtOnce; ++j)
      if (token[j] < end)
        args.out[token[j] * channels + channel] = activated_by(args.activation, window.push(now[j]) + bias);
  }
  if (!is_first) return;
  // Ascending: overwrites only rows already read.
  for (int i = 0; i < history; ++i)
    state[i * channels] = end < args.batch.tokens ? input(args.batch.tokens + i - history) : window.input[i + 1];
}

__global__ void conv1d_ahead_kernel(const __grid_constant__ ConvArgs args, int ahead, Stamp* stamps) {
  const OverlappingWork work(stamps);
  work.wait();
  const int channel = blockIdx.x * kElementThreads + threadIdx.x, token = blockIdx.y;
  if (channel >= args.channels) return;
  const auto stream_of = [&](int t) { return args.batch.streams[t]; };
  const float* taps = args.taps + int64_t{channel} * args.kernel;
  const auto product = [&](int t, int tap) { return args.x[int64_t{t} * args.channels + channel] * taps[tap]; };
  const int own = args.kernel - 1 - ahead;
  float sum = args.bias ? args.bias[channel] : 0;
  for (int t = token, tap = own; t >= 0 && tap >= 0; --t)
    if (stream_of(t) == stream_of(token)) sum += product(t, tap--);
  for (int t = token + 1, tap = own + 1; t < args.batch.tokens && tap < args.kernel; ++t)
    if (stream_of(t) == stream_of(token)) sum += product(t, tap++);
  args.out[int64_t{token} * args.channels + channel] = activated_by(args.activation, sum);
}

} // namespace

void launch_conv1d(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::ConvParams>(call.op.params);
  const ConvArgs args = {call.in[0],
                         call.vector(0),
                         call.op.weights.size() > 1 ? call.vector(1) : nullptr,
                         call.out[0],
                         call.state,
                         static_cast<int>(call.out_width(0)),
                         static_cast<int>(params.kernel),
                         std::max(32, static_cast<int>(params.kernel) - 1),
                         params.activation,
                         {call.positions, call.streams, call.tokens, call.sequences.kind}};
  if (params.ahead > 0) {
    const dim3 grid((args.channels + kElementThreads - 1) / kElementThreads, call.tokens);
    launch(conv1d_ahead_kernel, grid, kElementThreads, 0, args, static_cast<int>(params.ahead), launch.stamps());
    return;
  }
  const bool chunks = call.sequences.kind == Sequences::Kind::one;
  const dim3 grid((args.channels + kElementThreads - 1) / kElementThreads,
                  chunks ? (call.tokens + args.chunk_tokens - 1) / args.chunk_tokens : 1, call.sequences.count);
  const auto kernel = params.kernel == 3 ? conv1d_kernel<3> : params.kernel == 4 ? conv1d_kernel<4> : conv1d_kernel<0>;
  launch(kernel, grid, kElementThreads, 0, args, launch.stamps());
}

} // namespace ridge::kernels::cuda
