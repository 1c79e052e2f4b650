// Mean over a stream's last tokens by a softmax of gates: rows are those of the state, then the tokens'.
//
// Few tokens: a block has some channels of a sequence. It keeps their last rows in shared memory, as a ring, which it
// fills from the state before the wait; a thread has four rows. Prompts: a thread has a channel of neighbouring tokens,
// whose rows are mostly the same; a second kernel moves the state. All add the shares of four rows, then such sums.
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/recurrent/sequence.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kSegment = 4; // rows that are added first
constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kStepChannels = 8, kStepGroups = kThreads / kStepChannels, kPadding = 2,
              kBiasPitch = kStepChannels + kPadding;
constexpr int kTokensAtOnce = 4;

struct PoolArgs {
  const float *x, *gate, *bias; // [tokens][width]; [kernel][width], or with overlaps [kernel / 2][width]
  float *out, *state;           // [tokens][channels], [streams][kernel - 1][x, gate][width]
  int channels, width, kernel;
  bool overlaps; // core::PoolParams; then `width` is twice the channels
  Batch batch;

  __device__ __forceinline__ int history() const { return kernel - 1; }
  __device__ __forceinline__ float* state_of(int token) const {
    return state + int64_t{batch.streams[token]} * (2 * history() * width);
  }
  // A missing row has these.
  __device__ __forceinline__ float missing(bool of_gate) const { return of_gate && overlaps ? -INFINITY : 0; }
  // Row i is of the window, whose oldest comes first.
  __device__ __forceinline__ int half(int i) const { return overlaps && i >= kernel / 2; }
  __device__ __forceinline__ float bias_of(int i, int channel) const {
    return bias[int64_t{overlaps ? i % (kernel / 2) : i} * width + half(i) * channels + channel];
  }
};

__device__ __forceinline__ void add_share(float gate, float largest, float x, float& sum, float& mean) {
  const float share = expf(gate - largest);
  sum += share;
  mean = fmaf(share, x, mean);
}

// [ring: kernel][parts][channels], [biases: kernel][channels], [sums, means: segments][channels]; parts: x and gate, of
// each half. Rows are padded, so that those of four segments are in different banks.
template <bool kOverlaps>
class PoolStep {
  static constexpr int kParts = kOverlaps ? 4 : 2, kPitch = kParts * kStepChannels + kPadding;

 public:
  __device__ __forceinline__ PoolStep(const PoolArgs& args, float* shared)
      : args_(args), ring_(shared), bias_(ring_ + args.kernel * kPitch + lane()),
        sums_(reinterpret_cast<float2*>(bias_ - lane() + args.kernel * kBiasPitch) + lane()),
        channel_(static_cast<int>(blockIdx.x) * kStepChannels + lane()), real_(channel_ < args.channels) {}

  static int64_t shared_bytes(const PoolArgs& args) {
    const int segments = (args.kernel + kSegment - 1) / kSegment;
    return int64_t{4} * (args.kernel * (kPitch + kBiasPitch) + 2 * segments * kStepChannels);
  }

  __device__ __forceinline__ void load(const float* state, bool starts) const {
    constexpr int kAtOnce = 8;
    const int rows = args_.history() * kParts;
    for (int first = group(); first < rows; first += kAtOnce * kStepGroups) {
      float held[kAtOnce];
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n)
        if (const int r = first + n * kStepGroups; r < rows && real_)
          held[n] = starts ? args_.missing(r % 2) : state[state_place(r)];
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n)
        if (const int r = first + n * kStepGroups; r < rows && real_) at(r / kParts, r % kParts) = held[n];
    }
    for (int i = group(); i < args_.kernel; i += kStepGroups)
      if (real_) bias_[i * kBiasPitch] = args_.bias_of(i, channel_);
  }
  // Replaces the oldest row.
  __device__ __forceinline__ void push(int token, int slot) {
    newest_ = slot;
    if (group() < kParts && real_)
      at(slot, group()) = (group() % 2 ? args_.gate : args_.x)[int64_t{token} * args_.width + column(group())];
  }
  // After a barrier. `of_warps`: maxima.
  __device__ __forceinline__ void find_mean(int token, float (*of_warps)[kStepChannels]) const {
    float largest = -INFINITY;
    for_segments([&](int i) { largest = fmaxf(largest, gate(i)); }, [](int) {});
#pragma unroll
    for (int lanes = kStepChannels; lanes < kWarp; lanes *= 2)
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
    if (threadIdx.x % kWarp < kStepChannels) of_warps[threadIdx.x / kWarp][lane()] = largest;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < kWarps; ++w) largest = fmaxf(largest, of_warps[w][lane()]);
    float sum = 0, mean = 0;
    for_segments([&](int i) { add_share(gate(i), largest, at(slot_of(i), 2 * half(i)), sum, mean); },
                 [&](int segment) {
                   sums_[segment * kStepChannels] = {sum, mean};
                   sum = mean = 0;
                 });
    __syncthreads();
    if (group() > 0 || !real_) return;
#pragma unroll 8
    for (int segment = 0; segment < segments(); ++segment) {
      const float2 more = sums_[segment * kStepChannels];
      sum += more.x;
      mean += more.y;
    }
    args_.out[int64_t{token} * args_.channels + channel_] = mean / sum;
  }
  // All rows but the oldest.
  __device__ __forceinline__ void store(float* state) const {
    for (int r = group(); r < args_.history() * kParts && real_; r += kStepGroups)
      state[state_place(r)] = at(slot_of(r / kParts + 1), r % kParts);
  }

 private:
  __device__ __forceinline__ static int lane() { return threadIdx.x % kStepChannels; }
  __device__ __forceinline__ static int group() { return threadIdx.x / kStepChannels; }
  __device__ __forceinline__ int half(int i) const { return kOverlaps ? args_.half(i) : 0; }
  __device__ __forceinline__ int segments() const { return (args_.kernel + kSegment - 1) / kSegment; }
  __device__ __forceinline__ int column(int part) const { return part / 2 * args_.channels + channel_; }
  __device__ __forceinline__ int64_t state_place(int r) const {
    const int row = r / kParts, part = r % kParts;
    return int64_t{2 * row + part % 2} * args_.width + column(part);
  }
  __device__ __forceinline__ int slot_of(int i) const {
    const int slot = newest_ + 1 + i;
    return slot >= args_.kernel ? slot - args_.kernel : slot;
  }
  __device__ __forceinline__ float& at(int slot, int part) const {
    return ring_[slot * kPitch + part * kStepChannels + lane()];
  }
  __device__ __forceinline__ float gate(int i) const { return at(slot_of(i), 2 * half(i) + 1) + bias_[i * kBiasPitch]; }
  template <typename Row, typename Segment>
  __device__ __forceinline__ void for_segments(const Row& with_row, const Segment& at_end) const {
    for (int segment = group(); segment < segments(); segment += kStepGroups) {
#pragma unroll
      for (int k = 0; k < kSegment; ++k)
        if (const int i = segment * kSegment + k; i < args_.kernel) with_row(i);
      at_end(segment);
    }
  }

  const PoolArgs& args_;
  float *ring_, *bias_;
  float2* sums_;
  int channel_;
  bool real_;
  int newest_ = 0;
};

template <bool kOverlaps>
__global__ void __launch_bounds__(kThreads) pool_step_kernel(const __grid_constant__ PoolArgs args, Stamp* stamps) {
  extern __shared__ float2 shared[];
  __shared__ float of_warps[kWarps][kStepChannels];
  const OverlappingWork work(stamps);
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.y)};
  int token = sequence.next(-1);
  if (token >= args.batch.tokens) return work.wait();
  PoolStep<kOverlaps> step(args, reinterpret_cast<float*>(shared));
  float* state = args.state_of(token);
  step.load(state, sequence.starts(token));
  work.wait();
  for (int slot = args.history(); token < args.batch.tokens; token = sequence.next(token)) {
    step.push(token, slot);
    __syncthreads();
    step.find_mean(token, of_warps);
    slot = slot == args.history() ? 0 : slot + 1;
  }
  step.store(state);
}

// One sequence; a warp has kTokensAtOnce tokens and a lane a channel.
template <bool kOverlaps>
__global__ void __launch_bounds__(kThreads) pool_prompt_kernel(const __grid_constant__ PoolArgs args, Stamp* stamps) {
  static_assert(kTokensAtOnce == kSegment); // rows and biases of a step of the loops
  const DependentWork work(stamps);
  const int channel = blockIdx.x * kWarp + threadIdx.x % kWarp, history = args.history();
  const int first = (blockIdx.y * kWarps + threadIdx.x / kWarp) * kTokensAtOnce;
  if (channel >= args.channels || first >= args.batch.tokens) return;
  const float* state = args.state_of(0);
  const bool starts = args.batch.positions[0] == 0;
  const int last_row = history + args.batch.tokens - 1;
  // Row j of the first token's window and later ones, as row i of another's.
  const auto value = [&](int j, bool of_gate, int i) {
    const int row = min(first + j, last_row), column = channel + (kOverlaps ? args.half(i) * args.channels : 0);
    if (row >= history) return (of_gate ? args.gate : args.x)[int64_t{row - history} * args.width + column];
    return starts ? args.missing(of_gate) : state[int64_t{2 * row + of_gate} * args.width + column];
  };
  // use(token, whether a segment begins, gate, row j, row i)
  const auto for_rows = [&](const auto& use) {
    float bias[kTokensAtOnce] = {}; // of rows j to j - 3
    for (int from = 0; from < history + kTokensAtOnce; from += kSegment)
#pragma unroll
      for (int k = 0; k < kSegment; ++k) {
        const int j = from + k;
        if (j <= history) bias[k] = args.bias_of(j, channel);
#pragma unroll
        for (int t = 0; t < kTokensAtOnce; ++t)
          if (const int i = j - t; i >= 0 && i <= history)
            use(t, k == t, value(j, true, i) + bias[(k - t + kSegment) % kSegment], j, i);
      }
  };
  float largest[kTokensAtOnce], sum[kTokensAtOnce] = {}, mean[kTokensAtOnce] = {}, sum_of_segment[kTokensAtOnce] = {},
                                mean_of_segment[kTokensAtOnce] = {};
#pragma unroll
  for (float& of_token : largest) of_token = -INFINITY;
  for_rows([&](int t, bool, float gate, int, int) { largest[t] = fmaxf(largest[t], gate); });
  const auto finish_segment = [&](int t) {
    sum[t] += sum_of_segment[t], mean[t] += mean_of_segment[t];
    sum_of_segment[t] = mean_of_segment[t] = 0;
  };
  for_rows([&](int t, bool begins, float gate, int j, int i) {
    if (begins) finish_segment(t);
    add_share(gate, largest[t], value(j, false, i), sum_of_segment[t], mean_of_segment[t]);
  });
#pragma unroll
  for (int t = 0; t < kTokensAtOnce; ++t) {
    finish_segment(t);
    if (first + t < args.batch.tokens) args.out[int64_t{first + t} * args.channels + channel] = mean[t] / sum[t];
  }
}

// The last rows of state and tokens become the state: a lane per column of its rows, which have x, then gates.
__global__ void __launch_bounds__(kThreads) pool_store_kernel(const __grid_constant__ PoolArgs args, Stamp* stamps) {
  constexpr int kHeld = 16;
  const DependentWork work(stamps);
  const int column = blockIdx.x * kWarp + threadIdx.x % kWarp, group = threadIdx.x / kWarp, tokens = args.batch.tokens;
  const bool real = column < 2 * args.width, of_gate = column >= args.width, starts = args.batch.positions[0] == 0;
  const int history = args.history();
  float* state = args.state_of(0) + column;
  const float* input = of_gate ? args.gate + column - args.width : args.x + column;
  // Ascending: a round reads rows that no earlier one wrote.
  for (int first = group; first - group < history; first += kHeld * kWarps) {
    float held[kHeld];
#pragma unroll
    for (int n = 0; n < kHeld; ++n)
      if (const int row = first + n * kWarps, from = row + tokens; real && row < history)
        held[n] = from >= history ? input[int64_t{from - history} * args.width]
                  : starts        ? args.missing(of_gate)
                                  : state[int64_t{from} * 2 * args.width];
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kHeld; ++n)
      if (const int row = first + n * kWarps; real && row < history) state[int64_t{row} * 2 * args.width] = held[n];
  }
}

} // namespace

void launch_pool(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::PoolParams>(call.op.params);
  const PoolArgs args = {call.in[0],
                         call.in[1],
                         call.vector(0),
                         call.out[0],
                         call.state,
                         static_cast<int>(call.out_width(0)),
                         static_cast<int>(call.in_width(0)),
                         static_cast<int>(params.kernel),
                         params.overlaps,
                         {call.positions, call.streams, call.tokens, call.sequences.kind}};
  const auto blocks = [](int n, int each) { return static_cast<unsigned>((n + each - 1) / each); };
  // The tokens of a sequence take turns in a block, which costs more than a prompt's rows if there are many.
  if (call.sequences.kind != Sequences::Kind::one || call.tokens <= args.kernel / 8) {
    const auto step = [&](auto kernel, int64_t bytes) {
      allow_dynamic_shared_memory(kernel, bytes);
      launch(kernel, dim3(blocks(args.channels, kStepChannels), call.sequences.count), kThreads, bytes, args,
             launch.stamps());
    };
    if (params.overlaps) return step(pool_step_kernel<true>, PoolStep<true>::shared_bytes(args));
    return step(pool_step_kernel<false>, PoolStep<false>::shared_bytes(args));
  }
  launch(params.overlaps ? pool_prompt_kernel<true> : pool_prompt_kernel<false>,
         dim3(blocks(args.channels, kWarp), blocks(call.tokens, kWarps * kTokensAtOnce)), kThreads, 0, args,
         launch.stamps());
  launch(pool_store_kernel, blocks(2 * args.width, kWarp), kThreads, 0, args, launch.stamps());
}

} // namespace ridge::kernels::cuda
