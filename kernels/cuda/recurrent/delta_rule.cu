// The gated delta rule token by token, state in registers; prompts in chunks (chunks.cuh), unless key elements have
// separate decays. kDim / 16 lanes share a row of a head's state; a thread has parts of two, to reuse q and k. The
// state, which nothing else in the step writes, is loaded before the wait.
#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/op_call.h"
#include "kernels/cuda/recurrent/chunks.cuh"
#include "kernels/cuda/recurrent/sequence.cuh"
#include "kernels/cuda/runtime/ptx.cuh"

namespace ridge::kernels::cuda {
namespace {

constexpr int kThreads = 128, kElements = 16, kRows = 2;

struct DeltaArgs {
  const float *q, *k, *v;
  int64_t q_stride, k_stride, v_stride;
  const float *alpha, *beta; // [tokens][v_heads alphas], [tokens][v_heads]
  const float *a, *bias;     // [v_heads], [v_heads alphas]
  float *out, *state;        // [tokens][v_heads dim], [streams][v_heads][dim][dim]
  int k_heads, v_heads, dim;
  int alphas; // per head: one, or one per element of k
  float epsilon, least;
  Divisor sharing; // neighbouring heads share k; else heads k_heads apart
  bool neighbors_share;
  Batch batch;

  __device__ __forceinline__ int k_head(int head) const {
    return neighbors_share ? sharing.quotient(head) : head - sharing.quotient(head) * k_heads;
  }
  // `at`: token * v_heads + head.
  __device__ __forceinline__ float decay(int64_t at, int head, int i) const {
    const float x = alpha[at * alphas + i] + bias[head * alphas + i];
    return expf(least < 0 ? least / (1 + expf(a[head] * x)) : a[head] * softplus(x));
  }
  __device__ __forceinline__ float learning_rate(int64_t at) const { return sigmoid(beta[at]); }
};

__device__ __forceinline__ float plus(float x, float y) { return x + y; }

template <int kDim, bool kOfElements>
struct DeltaStage {
  static constexpr int kTokens = kOfElements ? 8 : 16, kDecays = kOfElements ? kDim : 1;
  float q[kTokens][kDim], k[kTokens][kDim];
  float decay[kTokens][kDecays], learning_rate[kTokens];
  int token[kTokens];

  // Stages tokens from `next` on and advances it; returns their number.
  __device__ __forceinline__ int fill(const DeltaArgs& args, const Sequence& sequence, int head, int& next) {
    int count = 0;
    for (; next < args.batch.tokens && count < kTokens; next = sequence.next(next), ++count)
      if (threadIdx.x == 0) token[count] = next;
    __syncthreads();
    constexpr int kEach = kDim / kWarp;
    const int k_head = args.k_head(head), lane = threadIdx.x % kWarp;
    for (int i = threadIdx.x / kWarp; i < count; i += kThreads / kWarp) {
      const int64_t t = token[i], at = t * args.v_heads + head;
      const float *from_q = args.q + t * args.q_stride + k_head * kDim + lane,
                  *from_k = args.k + t * args.k_stride + k_head * kDim + lane;
      float of_q[kEach], of_k[kEach], q_squares = 0, k_squares = 0;
#pragma unroll
      for (int j = 0; j < kEach; ++j) of_q[j] = from_q[kWarp * j], of_k[j] = from_k[kWarp * j];
      const float learns = args.learning_rate(at), first_decay = args.decay(at, head, kOfElements ? lane : 0);
#pragma unroll
      for (int j = 0; j < kEach; ++j) q_squares += of_q[j] * of_q[j], k_squares += of_k[j] * of_k[j];
      const float q_scale = rsqrtf(warp_sum(q_squares) + args.epsilon) * rsqrtf(static_cast<float>(kDim));
      const float k_scale = rsqrtf(warp_sum(k_squares) + args.epsilon);
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int d = lane + kWarp * j;
        q[i][d] = of_q[j] * q_scale, k[i][d] = of_k[j] * k_scale;
        if (d < kDecays) decay[i][d] = j == 0 ? first_decay : args.decay(at, head, d);
      }
      if (lane == 0) learning_rate[i] = learns;
    }
    __syncthreads();
    return count;
  }
};

// Lane l has elements 4 (l + kLanes j) to + 3.
template <int kLanes>
__device__ __forceinline__ void load_row(float (&to)[kElements], const float* row, int lane) {
#pragma unroll
  for (int j = 0; j < kElements / 4; ++j)
    *reinterpret_cast<float4*>(&to[4 * j]) = *reinterpret_cast<const float4*>(row + 4 * (lane + kLanes * j));
}

template <int kDim, bool kOfElements>
__global__ void __launch_bounds__(kThreads) delta_rule_kernel(const __grid_constant__ DeltaArgs args, Stamp* stamps) {
  constexpr int kLanes = kDim / kElements, kBlockRows = kThreads / kLanes * kRows;
  __shared__ DeltaStage<kDim, kOfElements> stage;
  const OverlappingWork work(stamps);
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.z)};
  const int first = sequence.next(-1), head = blockIdx.y, lane = threadIdx.x % kLanes;
  if (first >= args.batch.tokens) return work.wait();
  const int row = blockIdx.x * kBlockRows + threadIdx.x / kLanes * kRows;
  const bool active = row < kDim;
  prefetch_l2(args.a + head), prefetch_l2(args.bias + head * args.alphas);
  float* state = args.state + (int64_t{args.batch.streams[first]} * args.v_heads + head) * kDim * kDim + row * kDim;
  float s[kRows][kElements] = {};
  if (active && !sequence.starts(first))
#pragma unroll
    for (int r = 0; r < kRows; ++r) load_row<kLanes>(s[r], state + r * kDim, lane);
  work.wait();

  float next_value[kRows] = {};
  const auto load_value = [&](int64_t t) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (active) next_value[r] = args.v[t * args.v_stride + head * kDim + row + r];
  };
  for (int next = first; next < args.batch.tokens;) {
    load_value(next);
    const int count = stage.fill(args, sequence, head, next);
    for (int i = 0; i < count; ++i) {
      const int64_t t = stage.token[i];
      float value[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) value[r] = next_value[r];
      if (i + 1 < count) load_value(stage.token[i + 1]);
      float k[kElements], q[kElements];
      load_row<kLanes>(k, stage.k[i], lane);
      load_row<kLanes>(q, stage.q[i], lane);
      float decay[kElements];
      if constexpr (kOfElements)
        load_row<kLanes>(decay, stage.decay[i], lane);
      else
#pragma unroll
        for (int e = 0; e < kElements; ++e) decay[e] = stage.decay[i][0];
      const float learning_rate = stage.learning_rate[i];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float state_dot_k[4] = {}, state_dot_q[4] = {}; // shorter chains
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          s[r][e] *= decay[e];
          state_dot_k[e % 4] = fmaf(s[r][e], k[e], state_dot_k[e % 4]);
        }
        const float sum =
            warp_reduce((state_dot_k[0] + state_dot_k[1]) + (state_dot_k[2] + state_dot_k[3]), plus, kLanes);
        const float change = learning_rate * (value[r] - sum);
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          s[r][e] = fmaf(change, k[e], s[r][e]);
          state_dot_q[e % 4] = fmaf(s[r][e], q[e], state_dot_q[e % 4]);
        }
        const float y =
            warp_reduce((state_dot_q[0] + state_dot_q[1]) + (state_dot_q[2] + state_dot_q[3]), plus, kLanes);
        if (lane == 0 && active) args.out[(t * args.v_heads + head) * kDim + row + r] = y;
      }
    }
    __syncthreads(); // the stage is refilled
  }
  if (!active) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int j = 0; j < kElements / 4; ++j)
      *reinterpret_cast<float4*>(state + r * kDim + 4 * (lane + kLanes * j)) =
          *reinterpret_cast<const float4*>(&s[r][4 * j]);
}

// For any dim, with the state in memory.
__global__ void plain_delta_rule_kernel(const __grid_constant__ DeltaArgs args, Stamp* stamps) {
  extern __shared__ float shared[]; // q, k, decays
  __shared__ float scratch[kThreads / kWarp];
  const DependentWork work(stamps);
  const Sequence sequence{args.batch, static_cast<int>(blockIdx.z)};
  const int first = sequence.next(-1), head = blockIdx.y, dim = args.dim;
  if (first >= args.batch.tokens) return;
  float* state = args.state + (int64_t{args.batch.streams[first]} * args.v_heads + head) * dim * dim;
  for (int64_t t = first; t < args.batch.tokens; t = sequence.next(static_cast<int>(t))) {
    for (int i = 0; i < 2; ++i) {
      const float* from = (i == 0 ? args.q + t * args.q_stride : args.k + t * args.k_stride) + args.k_head(head) * dim;
      float squares = 0;
      for (int d = threadIdx.x; d < dim; d += kThreads) squares += from[d] * from[d];
      const float norm = rsqrtf(block_sum(squares, scratch) + args.epsilon);
      const float scale = i == 0 ? norm * rsqrtf(static_cast<float>(dim)) : norm;
      for (int d = threadIdx.x; d < dim; d += kThreads) shared[i * dim + d] = from[d] * scale;
    }
    const int64_t at = t * args.v_heads + head;
    for (int d = threadIdx.x; d < dim; d += kThreads)
      shared[2 * dim + d] = args.decay(at, head, args.alphas == 1 ? 0 : d);
    __syncthreads();
    const float *q = shared, *k = shared + dim, *decay = shared + 2 * dim;
    const bool starts = sequence.starts(static_cast<int>(t));
    const float learning_rate = args.learning_rate(at);
    for (int r = threadIdx.x; r < dim; r += kThreads) {
      float* row = state + int64_t{r} * dim;
      float state_dot_k = 0, state_dot_q = 0;
      for (int d = 0; d < dim; ++d) state_dot_k += (row[d] = starts ? 0 : row[d] * decay[d]) * k[d];
      const float change = learning_rate * (args.v[t * args.v_stride + head * dim + r] - state_dot_k);
      for (int d = 0; d < dim; ++d) state_dot_q += (row[d] += change * k[d]) * q[d];
      args.out[at * dim + r] = state_dot_q;
    }
    __syncthreads();
  }
}

ChunkArgs chunks_of(const DeltaArgs& args) {
  return {.q = args.q,
          .k = args.k,
          .v = args.v,
          .q_stride = args.q_stride,
          .k_stride = args.k_stride,
          .v_stride = args.v_stride,
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
  const DeltaArgs args = {call.in[0] + params.q_at,
                          call.in[1] + params.k_at,
                          call.in[2] + params.v_at,
                          call.in_width(0),
                          call.in_width(1),
                          call.in_width(2),
                          call.in[3],
                          call.in[4],
                          call.vector(0),
                          call.vector(1),
                          call.out[0],
                          call.state,
                          static_cast<int>(params.k_heads),
                          static_cast<int>(params.v_heads),
                          static_cast<int>(params.dim),
                          static_cast<int>(call.in_width(3) / params.v_heads),
                          params.epsilon,
                          params.least,
                          Divisor(params.neighbors_share ? params.v_heads / params.k_heads : params.k_heads),
                          params.neighbors_share,
                          {call.positions, call.streams, call.tokens, call.sequences.kind}};
  const bool of_elements = args.alphas > 1;
  if (call.sequences.kind == Sequences::Kind::one && !call.exact && !of_elements && args.least == 0) {
    const ChunkArgs chunks = chunks_of(args);
    if (takes_chunks(chunks, args.dim)) return launch_chunks<true>(launch, chunks, args.dim);
  }
  const auto run = [&]<int kDim>() {
    const auto kernel = of_elements ? delta_rule_kernel<kDim, true> : delta_rule_kernel<kDim, false>;
    const int rows = kThreads * kElements / args.dim * kRows;
    const dim3 grid((args.dim + rows - 1) / rows, args.v_heads, call.sequences.count);
    // Few blocks would crowd on the first multiprocessors that a running product frees: a third of the shared memory
    // each allows two. Chips with little of it could not fit them beside a product's block.
    const bool few =
        launch.overlap && launch.shared_per_block >= 160 << 10 && int64_t{grid.x} * grid.y * grid.z <= launch.sm_count;
    const size_t shared = few ? launch.shared_per_block / 3 : 0;
    allow_dynamic_shared_memory(kernel, shared);
    launch(kernel, grid, kThreads, shared, args, launch.stamps());
  };
  switch (args.dim) {
  case 32: return run.template operator()<32>();
  case 64: return run.template operator()<64>();
  case 128: return run.template operator()<128>();
  case 256: return run.template operator()<256>();
  default: break;
  }
  launch(plain_delta_rule_kernel, dim3(1, args.v_heads, call.sequences.count), kThreads, 3 * args.dim * sizeof(float),
         args, launch.stamps());
}

} // namespace ridge::kernels::cuda
