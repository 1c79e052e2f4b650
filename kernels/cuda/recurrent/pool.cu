// Mean over a stream's last tokens by a softmax of gates, a thread per channel. Chunks are at least as long as the
// history; the first one's block has the state.
#include "kernels/cuda/ops/elementwise.cuh"
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/recurrent/sequence.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 64, kChunkTokens = 32;

struct PoolArgs {
  const float *x, *gate, *bias; // [tokens][width]; [kernel][width], or with overlaps [kernel / 2][width]
  float *out, *state;           // [tokens][channels], [streams][kernel - 1][x, gate][width]
  int channels, width, kernel, chunk_tokens;
  bool overlaps; // core::PoolParams; then `width` is twice the channels
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
  const int64_t width = args.width;
  float* state = args.state + args.batch.streams[begin] * (2 * history * width);
  const int half = args.kernel / 2;
  const auto column = [&](int i) { return channel + (args.overlaps && i >= half ? args.channels : 0); };
  const auto bias = [&](int i) { return args.bias[(args.overlaps ? i % half : i) * width + column(i)]; };
  if (sequence.starts(chunks ? 0 : begin) && (!chunks || begin == 0))
    for (int i = 0; i < 2 * history; ++i)
      for (int64_t at = channel; at < width; at += args.channels)
        state[i * width + at] = i % 2 == 1 && args.overlaps ? -INFINITY : 0;
  // `i` rows behind the state's first; tokens from `first` on follow the state.
  const auto input = [&](int i, int first, bool gate, int64_t at) {
    return i < history ? state[(2 * i + gate) * width + at]
                       : (gate ? args.gate : args.x)[(first + i - history) * width + at];
  };
  const auto store = [&](int i, int from, int first) {
    for (int64_t at = channel; at < width; at += args.channels) {
      state[2 * i * width + at] = input(from, first, false, at);
      state[(2 * i + 1) * width + at] = input(from, first, true, at);
    }
  };
  for (int t = begin; t < end; t = sequence.next(t)) {
    const int first = chunks ? 0 : t, row = t - first;
    const auto gate = [&](int i) { return input(row + i, first, true, column(i)) + bias(i); };
    float largest = -INFINITY, sum = 0, mean = 0;
    for (int i = 0; i <= history; ++i) largest = fmaxf(largest, gate(i));
    for (int i = 0; i <= history; ++i) {
      const float share = expf(gate(i) - largest);
      sum += share;
      mean += share * input(row + i, first, false, column(i));
    }
    args.out[int64_t{t} * args.channels + channel] = mean / sum;
    if (chunks) continue;
    for (int i = 0; i < history; ++i) store(i, i + 1, t);
  }
  if (!chunks || begin > 0) return;
  for (int i = 0; i < history; ++i) store(i, args.batch.tokens + i, 0);
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
                         static_cast<int>(call.in_width(0)),
                         static_cast<int>(params.kernel),
                         chunk,
                         params.overlaps,
                         {call.positions, call.streams, call.tokens, call.sequences.kind}};
  const bool chunks = call.sequences.kind == Sequences::Kind::one;
  const dim3 grid((args.channels + kThreads - 1) / kThreads, chunks ? (call.tokens + chunk - 1) / chunk : 1,
                  call.sequences.count);
  launch(pool_kernel, grid, kThreads, 0, args, launch.stamps());
}

} // namespace ridge::kernels::cuda
