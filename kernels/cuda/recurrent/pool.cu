// A mean of each channel over the last tokens of its stream, by a softmax of their gates: a thread per channel.
//
// A prompt is split into chunks of tokens that are at least as long as what a token looks back at, because the inputs
// before a chunk are in the batch. The block of the first chunk reads the state, and then writes the new one.
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/recurrent/sequence.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 64, kChunkTokens = 32;

struct PoolArgs {
  const float *x, *gate, *bias; // [tokens][channels] each, [kernel][channels]
  float *out, *state;           // [tokens][channels], [streams][kernel - 1][x, gate][channels]
  int channels, kernel, chunk_tokens;
  Batch batch;
};

__global__ void pool_kernel(const __grid_constant__ PoolArgs args, Stamp* stamps) {
  const DependentWork work(stamps);
  const int channel = blockIdx.x * kThreads + threadIdx.x, history = args.kernel - 1;
  if (channel >= args.channels) return;
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.z)};
  const bool chunks = args.batch.kind == Sequences::Kind::one;
  const int begin = chunks ? blockIdx.y * args.chunk_tokens : sequence.next(-1);
  const int end = chunks ? min(args.batch.tokens, begin + args.chunk_tokens) : args.batch.tokens;
  if (begin >= end) return;
  const int64_t channels = args.channels;
  float* state = args.state + args.batch.streams[begin] * (2 * history * channels) + channel;
  if (sequence.starts(chunks ? 0 : begin) && (!chunks || begin == 0))
    for (int i = 0; i < 2 * history; ++i) state[i * channels] = 0;
  // x or gate, `i` rows behind the first of the state; the rows behind the state are tokens from `first` on.
  const auto input = [&](int i, int first, bool gate) {
    return i < history ? state[(2 * i + gate) * channels]
                       : (gate ? args.gate : args.x)[(first + i - history) * channels + channel];
  };
  for (int t = begin; t < end; t = sequence.next(t)) {
    const int first = chunks ? 0 : t, row = t - first; // the first row that the token looks at
    const auto gate = [&](int i) { return input(row + i, first, true) + args.bias[i * channels + channel]; };
    float largest = -INFINITY, sum = 0, mean = 0;
    for (int i = 0; i <= history; ++i) largest = fmaxf(largest, gate(i));
    for (int i = 0; i <= history; ++i) {
      const float share = expf(gate(i) - largest);
      sum += share;
      mean += share * input(row + i, first, false);
    }
    args.out[t * channels + channel] = mean / sum;
    if (chunks) continue;
    for (int i = 0; i < history; ++i) { // ascending: each row takes the next
      state[2 * i * channels] = input(i + 1, t, false);
      state[(2 * i + 1) * channels] = input(i + 1, t, true);
    }
  }
  if (!chunks || begin > 0) return;
  for (int i = 0; i < history; ++i) {
    state[2 * i * channels] = input(args.batch.tokens + i, 0, false);
    state[(2 * i + 1) * channels] = input(args.batch.tokens + i, 0, true);
  }
}

} // namespace

void launch_pool(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::PoolParams>(call.op.params);
  const int chunk = std::max(kChunkTokens, static_cast<int>(params.kernel));
  const PoolArgs args = {call.in[0],
                         call.in[1],
                         call.vector(0),
                         call.out[0],
                         call.state,
                         static_cast<int>(call.out_width(0)),
                         static_cast<int>(params.kernel),
                         chunk,
                         {call.positions, call.streams, call.tokens, call.sequences.kind}};
  const bool chunks = call.sequences.kind == Sequences::Kind::one;
  const dim3 grid((args.channels + kThreads - 1) / kThreads, chunks ? (call.tokens + chunk - 1) / chunk : 1,
                  call.sequences.count);
  launch(pool_kernel, grid, kThreads, 0, args, launch.stamps());
}

} // namespace ridge::kernels::cuda
