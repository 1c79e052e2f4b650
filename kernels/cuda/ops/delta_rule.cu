// The gated delta rule, token after token, with the state in registers; prompts in chunks of tokens (chunks.cuh).
//
// Each row of a head's state (an element of v) goes through the tokens by itself: it needs only the head's q and k and
// its own element of v. A row is shared by kDim / 16 lanes with 16 elements each; a thread has parts of two rows, so
// that what it reads of q and k serves both. Tokens are staged in shared memory some at a time, with q and k normed.
#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/recurrent/chunks.cuh"
#include "kernels/cuda/recurrent/sequence.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 128, kStageTokens = 16, kElements = 16, kRows = 2; // elements of a row, rows of a thread

struct DeltaArgs {
  const float *qkv, *alpha, *beta; // [tokens][(2 k_heads + v_heads) dim], [tokens][v_heads] each
  const float *a, *bias;           // [v_heads]
  float *out, *state;              // [tokens][v_heads dim], [streams][v_heads][dim][dim]
  int k_heads, v_heads, dim;
  float epsilon;
  bool neighbors_share;
  Batch batch;

  __device__ __forceinline__ int k_head(int head) const {
    return neighbors_share ? head / (v_heads / k_heads) : head % k_heads;
  }
  __device__ __forceinline__ int64_t stride() const { return int64_t{2 * k_heads + v_heads} * dim; } // of qkv
  __device__ __forceinline__ float decay(int64_t at, int head) const {
    return expf(a[head] * softplus(alpha[at] + bias[head]));
  }
  __device__ __forceinline__ float learned(int64_t at) const { return 1 / (1 + expf(-beta[at])); }
};

__device__ __forceinline__ float plus(float x, float y) { return x + y; }

template <int kDim>
struct DeltaStage {
  float q[kStageTokens][kDim], k[kStageTokens][kDim];
  float decay[kStageTokens], learned[kStageTokens];
  int token[kStageTokens];

  // The next tokens' q and k, normed, and their gates, a warp per token. `next` is the first of them and becomes the
  // one behind them. Returns how many there are.
  __device__ __forceinline__ int fill(const DeltaArgs& args, const Sequence& sequence, int head, int& next) {
    int count = 0;
    for (; next < args.batch.tokens && count < kStageTokens; next = sequence.next(next), ++count)
      if (threadIdx.x == 0) token[count] = next;
    __syncthreads();
    const int k_head = args.k_head(head), lane = threadIdx.x % kWarp;
    for (int i = threadIdx.x / kWarp; i < count; i += kThreads / kWarp) {
      const int64_t t = token[i];
      const float *from_q = args.qkv + t * args.stride() + k_head * kDim, *from_k = from_q + args.k_heads * kDim;
      float q_squares = 0, k_squares = 0;
      for (int d = lane; d < kDim; d += kWarp) q_squares += from_q[d] * from_q[d], k_squares += from_k[d] * from_k[d];
      const float q_scale = rsqrtf(warp_sum(q_squares) + args.epsilon) * rsqrtf(static_cast<float>(kDim));
      const float k_scale = rsqrtf(warp_sum(k_squares) + args.epsilon);
      for (int d = lane; d < kDim; d += kWarp) q[i][d] = from_q[d] * q_scale, k[i][d] = from_k[d] * k_scale;
      if (lane == 0) {
        decay[i] = args.decay(t * args.v_heads + head, head);
        learned[i] = args.learned(t * args.v_heads + head);
      }
    }
    __syncthreads();
    return count;
  }
};

// Lane l of a row has elements 4 (l + kLanes j) to + 3: lanes next to each other read 16 bytes next to each other.
template <int kLanes>
__device__ __forceinline__ void load_row(float (&to)[kElements], const float* row, int lane) {
#pragma unroll
  for (int j = 0; j < kElements / 4; ++j)
    *reinterpret_cast<float4*>(&to[4 * j]) = *reinterpret_cast<const float4*>(row + 4 * (lane + kLanes * j));
}

template <int kDim>
__global__ void __launch_bounds__(kThreads) delta_rule_kernel(const __grid_constant__ DeltaArgs args, Stamp* stamps) {
  constexpr int kLanes = kDim / kElements, kBlockRows = kThreads / kLanes * kRows;
  __shared__ DeltaStage<kDim> stage;
  const DependentWork work(stamps);
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.z)};
  const int first = sequence.next(-1), head = blockIdx.y, lane = threadIdx.x % kLanes;
  if (first >= args.batch.tokens) return;
  const int row = blockIdx.x * kBlockRows + threadIdx.x / kLanes * kRows;
  const bool active = row < kDim;
  float* state = args.state + (int64_t{args.batch.streams[first]} * args.v_heads + head) * kDim * kDim + row * kDim;
  float s[kRows][kElements] = {};
  if (active && !sequence.starts(first))
#pragma unroll
    for (int r = 0; r < kRows; ++r) load_row<kLanes>(s[r], state + r * kDim, lane);

  const float* v = args.qkv + (2 * args.k_heads + head) * kDim + row;
  int next = first;
  while (const int count = stage.fill(args, sequence, head, next)) {
    for (int i = 0; i < count; ++i) {
      const int64_t t = stage.token[i];
      float k[kElements], q[kElements];
      load_row<kLanes>(k, stage.k[i], lane);
      load_row<kLanes>(q, stage.q[i], lane);
      const float decay = stage.decay[i], learned = stage.learned[i];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float value = active ? v[t * args.stride() + r] : 0;
        float known[4] = {}, asked[4] = {}; // partial sums, so that they do not wait for one another
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          s[r][e] *= decay;
          known[e % 4] = fmaf(s[r][e], k[e], known[e % 4]);
        }
        const float sum = warp_reduce((known[0] + known[1]) + (known[2] + known[3]), plus, kLanes);
        const float change = learned * (value - sum);
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          s[r][e] = fmaf(change, k[e], s[r][e]);
          asked[e % 4] = fmaf(s[r][e], q[e], asked[e % 4]);
        }
        const float y = warp_reduce((asked[0] + asked[1]) + (asked[2] + asked[3]), plus, kLanes);
        if (lane == 0 && active) args.out[(t * args.v_heads + head) * kDim + row + r] = y;
      }
    }
    __syncthreads(); // the stage is filled anew
  }
  if (!active) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int j = 0; j < kElements / 4; ++j)
      *reinterpret_cast<float4*>(state + r * kDim + 4 * (lane + kLanes * j)) =
          *reinterpret_cast<const float4*>(&s[r][4 * j]);
}

// For any dim: a block per head, a thread for some rows, all in memory.
__global__ void plain_delta_rule_kernel(const __grid_constant__ DeltaArgs args, Stamp* stamps) {
  extern __shared__ float shared[]; // q, k
  __shared__ float scratch[kThreads / kWarp];
  const DependentWork work(stamps);
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.z)};
  const int first = sequence.next(-1), head = blockIdx.y, dim = args.dim;
  if (first >= args.batch.tokens) return;
  float* state = args.state + (int64_t{args.batch.streams[first]} * args.v_heads + head) * dim * dim;
  for (int64_t t = first; t < args.batch.tokens; t = sequence.next(static_cast<int>(t))) {
    const float* x = args.qkv + t * args.stride();
    for (int i = 0; i < 2; ++i) { // q, k
      const float* from = x + (i * args.k_heads + args.k_head(head)) * dim;
      float squares = 0;
      for (int d = threadIdx.x; d < dim; d += kThreads) squares += from[d] * from[d];
      const float norm = rsqrtf(block_sum(squares, scratch) + args.epsilon);
      const float scale = i == 0 ? norm * rsqrtf(static_cast<float>(dim)) : norm;
      for (int d = threadIdx.x; d < dim; d += kThreads) shared[i * dim + d] = from[d] * scale;
    }
    __syncthreads();
    const float *q = shared, *k = shared + dim;
    const int64_t at = t * args.v_heads + head;
    const bool starts = sequence.starts(static_cast<int>(t));
    const float decay = args.decay(at, head), learned = args.learned(at);
    for (int r = threadIdx.x; r < dim; r += kThreads) {
      float* row = state + int64_t{r} * dim;
      float known = 0, asked = 0;
      for (int d = 0; d < dim; ++d) known += (row[d] = starts ? 0 : row[d] * decay) * k[d];
      const float change = learned * (x[(2 * args.k_heads + head) * dim + r] - known);
      for (int d = 0; d < dim; ++d) asked += (row[d] += change * k[d]) * q[d];
      args.out[at * dim + r] = asked;
    }
    __syncthreads();
  }
}

ChunkArgs chunks_of(const DeltaArgs& args) {
  const int64_t keys = int64_t{args.k_heads} * args.dim, stride = 2 * keys + int64_t{args.v_heads} * args.dim;
  return {.q = args.qkv,
          .k = args.qkv + keys,
          .v = args.qkv + 2 * keys,
          .q_stride = stride,
          .k_stride = stride,
          .v_stride = stride,
          .alpha = args.alpha,
          .a = args.a,
          .bias = args.bias,
          .beta = args.beta,
          .skip = nullptr,
          .out = args.out,
          .state = args.state,
          .positions = args.batch.positions,
          .streams = args.batch.streams,
          .tokens = args.batch.tokens,
          .heads = args.v_heads,
          .rows = args.dim,
          .k_heads = args.k_heads,
          .neighbors_share = args.neighbors_share,
          .epsilon = args.epsilon};
}

} // namespace

void launch_delta_rule(const Launch& launch, const OpCall& call) {
  const auto& params = std::get<core::DeltaParams>(call.op.params);
  const DeltaArgs args = {call.in[0],
                          call.in[1],
                          call.in[2],
                          call.vector(0),
                          call.vector(1),
                          call.out[0],
                          call.state,
                          static_cast<int>(params.k_heads),
                          static_cast<int>(params.v_heads),
                          static_cast<int>(params.dim),
                          params.epsilon,
                          params.neighbors_share,
                          {call.positions, call.streams, call.tokens, call.sequences.kind}};
  if (call.sequences.kind == Sequences::Kind::one && !call.exact) {
    const ChunkArgs chunks = chunks_of(args);
    if (takes_chunks(chunks, args.dim)) return launch_chunks<true>(launch, chunks, args.dim);
  }
  const auto run = [&](auto kernel) {
    const int rows = kThreads * kElements / args.dim * kRows; // of a block
    launch(kernel, dim3((args.dim + rows - 1) / rows, args.v_heads, call.sequences.count), kThreads, 0, args,
           launch.stamps());
  };
  switch (args.dim) {
  case 32: return run(delta_rule_kernel<32>);
  case 64: return run(delta_rule_kernel<64>);
  case 128: return run(delta_rule_kernel<128>);
  case 256: return run(delta_rule_kernel<256>);
  default: break;
  }
  launch(plain_delta_rule_kernel, dim3(1, args.v_heads, call.sequences.count), kThreads, 2 * args.dim * sizeof(float),
         args, launch.stamps());
}

} // namespace ridge::kernels::cuda
