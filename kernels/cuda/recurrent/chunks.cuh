// Prompts through the gated delta rule or Mamba 2, with one decay per head and token:
//
//   S_t = g_t S_(t-1) + u_t k_tᵀ,   out_t = S_t q_t           S: [rows, kDim]; rows share k and q
//
// kChunk tokens take a few tensor-core products. G_i = g_1 … g_i in the chunk, S before it:
//
//   out_i = G_i S q_i + Σ_(j <= i) P_ij u_j                   P_ij = G_i / G_j (q_i · k_j)
//   S'    = G_n S + Σ_j (G_n / G_j) u_j k_jᵀ
//
// Mamba: u_j = step_j x_j. Delta rule: u_i = beta_i (v_i - g_i S_(i-1) k_i), hence
//
//   (I + A) u = beta (v - G S k)                              A_ij = beta_i G_i / G_j (k_i · k_j) for j < i
//
// solved in two blocks of kBlock tokens with inverted triangles. A warp keeps 16 rows of S in registers; mma's sums are
// the next product's left operand. Operands are f16: k and q unit vectors, S and u scaled per warp by a power of two.
#pragma once

#include "kernels/cuda/ops/activation.cuh"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/warp.cuh"

#include <algorithm>

namespace ridge::kernels::cuda {

struct ChunkArgs {
  const float *q, *k, *v;
  int64_t q_stride, k_stride, v_stride; // floats; of q, k multiples of 4
  const float *alpha, *a, *bias;        // g = exp(a[head] * step), step = softplus(alpha[token][head] + bias[head])
  const float* beta;                    // [tokens][heads]: the delta rule's beta before its sigmoid
  const float* skip;                    // [heads], Mamba: out += skip * v
  float *out, *state;                   // [tokens][heads rows], [streams][heads][rows][kDim]
  const int32_t *positions, *streams;
  int tokens, heads, rows, k_heads;
  bool neighbors_share; // neighbouring heads share k; else every k_heads-th
  float epsilon;        // of norms, under the root

  __device__ __forceinline__ int k_head(int head) const {
    return neighbors_share ? head / (heads / k_heads) : head % k_heads;
  }
};

inline constexpr int kChunk = 32, kBlock = 16;

template <int kDim>
struct ChunkStage {
  float next_k[kChunk][kDim], next_q[kChunk][kDim];
  __half k[kChunk][kDim + 8], q[kChunk][kDim + 8]; // unit vectors
  __half p[kChunk][kChunk + 8];
  float inside[2][kBlock][kBlock + 1]; // A within a block
  __half across[kBlock][kBlock + 8];   // -A between the blocks
  __half inverse[2][kBlock][kBlock + 8];
  float decay[kChunk], learning_rate[kChunk]; // log2 of G; beta or step
  float from_start[kChunk], to_end[kChunk];   // G_i, G_n / G_i
  float k_length[kChunk], q_length[kChunk];   // factors of u and out
};

// Zeros behind the prompt, which have no effect.
template <int kDim>
__device__ __forceinline__ void fetch_chunk(ChunkStage<kDim>& stage, const ChunkArgs& args, int k_head, int first) {
  constexpr int kParts = kDim / 4;
  for (int i = threadIdx.x; i < kChunk * kParts; i += blockDim.x) {
    const int token = i / kParts, col = i % kParts * 4;
    const bool exists = first + token < args.tokens;
    const int64_t from = exists ? first + token : 0, at = int64_t{k_head} * kDim + col;
    copy_async_16_or_zeros(&stage.next_k[token][col], args.k + from * args.k_stride + at, exists);
    copy_async_16_or_zeros(&stage.next_q[token][col], args.q + from * args.q_stride + at, exists);
  }
  copy_async_commit();
}

template <int kDim, bool kDelta>
__device__ __forceinline__ void normalize_chunk(ChunkStage<kDim>& stage, float epsilon) {
  constexpr int kLanes = 8, kParts = kDim / kLanes / 4;
  const int lane = threadIdx.x % kLanes;
  const auto plus = [](float x, float y) { return x + y; };
  const auto normalize = [&](const float(&from)[kDim], __half(&to)[kDim + 8]) { // returns the sum of squares
    float4 x[kParts];
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kParts; ++j) {
      x[j] = *reinterpret_cast<const float4*>(&from[4 * (lane + kLanes * j)]);
      squares += (x[j].x * x[j].x + x[j].y * x[j].y) + (x[j].z * x[j].z + x[j].w * x[j].w);
    }
    squares = warp_reduce(squares, plus, kLanes);
    const float scale = kDelta ? rsqrtf(squares + epsilon) : squares > 0 ? rsqrtf(squares) : 0;
#pragma unroll
    for (int j = 0; j < kParts; ++j)
      *reinterpret_cast<uint2*>(&to[4 * (lane + kLanes * j)]) = {pack_half2(x[j].x * scale, x[j].y * scale),
                                                                 pack_half2(x[j].z * scale, x[j].w * scale)};
    return squares;
  };
  for (int i = threadIdx.x / kLanes; i < kChunk; i += blockDim.x / kLanes) {
    const float k_squares = normalize(stage.next_k[i], stage.k[i]), q_squares = normalize(stage.next_q[i], stage.q[i]);
    if (lane != 0) continue;
    stage.k_length[i] = kDelta ? 1 : sqrtf(k_squares);
    stage.q_length[i] = kDelta ? rsqrtf(static_cast<float>(kDim)) : sqrtf(q_squares);
  }
}

struct ChunkGates {
  float alpha = 0, beta = 0;

  __device__ __forceinline__ void fetch(const ChunkArgs& args, int head, int first) {
    const int64_t at = int64_t{first + static_cast<int>(threadIdx.x)} * args.heads + head;
    if (threadIdx.x >= kChunk || first + static_cast<int>(threadIdx.x) >= args.tokens) return;
    alpha = args.alpha[at];
    if (args.beta) beta = args.beta[at];
  }
  // Behind the prompt: no decay, no update.
  template <int kDim, bool kDelta>
  __device__ __forceinline__ void store(ChunkStage<kDim>& stage, const ChunkArgs& args, int head, int first) const {
    static_assert(kChunk == kWarp);
    if (threadIdx.x >= kWarp) return;
    const bool exists = first + static_cast<int>(threadIdx.x) < args.tokens;
    const float step = exists ? softplus(alpha + args.bias[head]) : 0;
    constexpr float kLog2E = 1.44269504f;
    const float sum = warp_prefix_sum(args.a[head] * step * kLog2E);
    stage.decay[threadIdx.x] = sum;
    stage.from_start[threadIdx.x] = exp2_approx(sum);
    stage.to_end[threadIdx.x] = exp2_approx(__shfl_sync(~0u, sum, kChunk - 1) - sum);
    stage.learning_rate[threadIdx.x] = !kDelta ? step : exists ? 1 / (1 + expf(-beta)) : 0;
  }
};

// On and below the diagonal, over warps.
template <int kDim, bool kDelta>
__device__ __forceinline__ void compare_tokens(ChunkStage<kDim>& stage) {
  constexpr int kTiles = 6; // two tiles for the first 16 tokens, four for the others
  const int lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
  for (int tile = threadIdx.x / kWarp; tile < kTiles; tile += blockDim.x / kWarp) {
    const int row = tile < 2 ? 0 : kBlock, col = 8 * (tile < 2 ? tile : tile - 2);
    float q_dot_k[4] = {}, k_dot_k[4] = {}; // q_i · k_j, k_i · k_j
#pragma unroll
    for (int d = 0; d < kDim; d += 32) {
      uint32_t b[4], a[4];
      load_matrix_x4(b, &stage.k[col + lane % 8][d + lane / 8 * 8]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        load_matrix_x4(a, &stage.q[row + lane % 16][d + 16 * half + lane / 16 * 8]);
        mma_16x8x16(q_dot_k, a, b[2 * half], b[2 * half + 1]);
        if (!kDelta) continue;
        load_matrix_x4(a, &stage.k[row + lane % 16][d + 16 * half + lane / 16 * 8]);
        mma_16x8x16(k_dot_k, a, b[2 * half], b[2 * half + 1]);
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int i = row + g + e / 2 * 8, j = col + 2 * t + e % 2;
      const float kept = i >= j ? exp2_approx(stage.decay[i] - stage.decay[j]) : 0;
      stage.p[i][j] = __float2half(kept * q_dot_k[e]);
      if (!kDelta) continue;
      const float coupling = stage.learning_rate[i] * kept * k_dot_k[e];
      if (row == col / kBlock * kBlock)
        stage.inside[row / kBlock][i - row][j - row] = coupling; // used below the diagonal
      else
        stage.across[i - row][j] = __float2half(-coupling);
    }
  }
}

// A lane has a column.
template <int kDim>
__device__ __forceinline__ void invert_triangles(ChunkStage<kDim>& stage) {
  const int block = threadIdx.x / kBlock, col = threadIdx.x % kBlock;
  if (block > 1) return;
  float x[kBlock];
#pragma unroll
  for (int i = 0; i < kBlock; ++i) x[i] = i == col;
#pragma unroll
  for (int j = 0; j < kBlock; ++j) {
    stage.inverse[block][j][col] = __float2half(x[j]);
#pragma unroll
    for (int i = j + 1; i < kBlock; ++i) x[i] -= stage.inside[block][i][j] * x[j];
  }
}

__device__ __forceinline__ void pack_left(uint32_t (&a)[4], const float (&left)[4], const float (&right)[4],
                                          float scale) {
  a[0] = pack_half2(left[0] * scale, left[1] * scale);
  a[1] = pack_half2(left[2] * scale, left[3] * scale);
  a[2] = pack_half2(right[0] * scale, right[1] * scale);
  a[3] = pack_half2(right[2] * scale, right[3] * scale);
}

// Brings the largest magnitude into [1, 2).
struct WarpScale {
  float down, up;

  template <int kTiles>
  __device__ __forceinline__ explicit WarpScale(const float (&values)[kTiles][4]) {
    float largest = 0;
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) largest = fmaxf(largest, fabsf(values[i][e]));
    const uint32_t exponent = min(max(warp_max(__float_as_uint(largest)) >> 23, 1u), 253u);
    up = __uint_as_float(exponent << 23);
    down = __uint_as_float((254 - exponent) << 23);
  }
};

// Row-major f16 [n, k].
template <typename Row>
__device__ __forceinline__ uint32_t right_word(const Row* rows, int n, int k) {
  return *reinterpret_cast<const uint32_t*>(&rows[n + threadIdx.x % kWarp / 4][k + threadIdx.x % 4 * 2]);
}

// x: k or q.
template <int kDim, typename Row>
__device__ __forceinline__ void multiply_state(float (&sums)[kChunk / 8][4], const uint32_t (&state)[kDim / 16][4],
                                               const Row* x) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int d = 0; d < kDim; d += 32)
#pragma unroll
    for (int n = 0; n < kChunk / 8; ++n) {
      uint32_t b[4];
      load_matrix_x4(b, &x[8 * n + lane % 8][d + lane / 8 * 8]);
      mma_16x8x16(sums[n], state[d / 16], b[0], b[1]);
      mma_16x8x16(sums[n], state[d / 16 + 1], b[2], b[3]);
    }
}

// (I + A) u = right, in place.
template <int kDim>
__device__ __forceinline__ void solve_chunk(const ChunkStage<kDim>& stage, float (&u)[kChunk / 8][4],
                                            const WarpScale& scale) {
  uint32_t a[4];
#pragma unroll
  for (int block = 0; block < 2; ++block) {
    float(&left)[4] = u[2 * block], (&right)[4] = u[2 * block + 1];
    if (block == 1) { // `a`: u of the first block
#pragma unroll
      for (int e = 0; e < 4; ++e) left[e] *= scale.down, right[e] *= scale.down;
      mma_16x8x16(left, a, right_word(stage.across, 0, 0), right_word(stage.across, 0, 8));
      mma_16x8x16(right, a, right_word(stage.across, 8, 0), right_word(stage.across, 8, 8));
#pragma unroll
      for (int e = 0; e < 4; ++e) left[e] *= scale.up, right[e] *= scale.up;
    }
    pack_left(a, left, right, scale.down);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum[4] = {};
      mma_16x8x16(sum, a, right_word(stage.inverse[block], 8 * half, 0), right_word(stage.inverse[block], 8 * half, 8));
#pragma unroll
      for (int e = 0; e < 4; ++e) u[2 * block + half][e] = sum[e] * scale.up;
    }
    pack_left(a, left, right, scale.down);
  }
}

template <int kDim, bool kDelta>
__global__ void __launch_bounds__(192) chunks_kernel(const __grid_constant__ ChunkArgs args, Stamp* stamps) {
  extern __shared__ __align__(16) uint8_t chunk_shared[];
  auto& stage = *reinterpret_cast<ChunkStage<kDim>*>(chunk_shared);
  const DependentWork work(stamps);
  const int head = blockIdx.y, k_head = args.k_head(head), lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
  const int row = (blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp) * 16 + g;
  const int64_t channels = int64_t{args.heads} * args.rows, channel = int64_t{head} * args.rows + row;
  float* state = args.state + (args.streams[0] * channels + channel) * kDim + 2 * t;

  ChunkGates gates;
  fetch_chunk(stage, args, k_head, 0);
  gates.fetch(args, head, 0);
  float s[kDim / 8][4] = {}; // rows `row` and + 8, columns 8 n + 2 t and + 1
  if (args.positions[0] != 0)
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = state[(e / 2 * 8) * kDim + 8 * n + e % 2];
  const float skip = kDelta ? 0 : args.skip[head];

  for (int first = 0; first < args.tokens; first += kChunk) {
    float v[kChunk / 8][4], u[kChunk / 8][4]; // tokens 8 n + 2 t and + 1
#pragma unroll
    for (int n = 0; n < kChunk / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t token = first + 8 * n + 2 * t + e % 2;
        v[n][e] = token < args.tokens ? args.v[token * args.v_stride + channel + e / 2 * 8] : 0;
      }
    copy_async_wait<0>();
    __syncthreads(); // k, q are there; the previous chunk is no longer read
    gates.template store<kDim, kDelta>(stage, args, head, first);
    normalize_chunk<kDim, kDelta>(stage, args.epsilon);
    __syncthreads();
    if (first + kChunk < args.tokens) {
      fetch_chunk(stage, args, k_head, first + kChunk);
      gates.fetch(args, head, first + kChunk);
    }
    compare_tokens<kDim, kDelta>(stage);
    if (kDelta) {
      __syncthreads();
      invert_triangles(stage);
    }

    float out[kChunk / 8][4] = {};
    const WarpScale s_scale(s);
    {
      uint32_t left[kDim / 16][4];
#pragma unroll
      for (int d = 0; d < kDim / 16; ++d) pack_left(left[d], s[2 * d], s[2 * d + 1], s_scale.down);
      if (kDelta) {
        float known[kChunk / 8][4] = {};
        multiply_state<kDim>(known, left, stage.k);
#pragma unroll
        for (int n = 0; n < kChunk / 8; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int i = 8 * n + 2 * t + e % 2;
            u[n][e] = stage.learning_rate[i] * (v[n][e] - stage.from_start[i] * s_scale.up * known[n][e]);
          }
      }
      multiply_state<kDim>(out, left, stage.q);
    }
    __syncthreads(); // P and the inverses are there
    if (!kDelta)
#pragma unroll
      for (int n = 0; n < kChunk / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          u[n][e] = stage.learning_rate[8 * n + 2 * t + e % 2] * stage.k_length[8 * n + 2 * t + e % 2] * v[n][e];
    const WarpScale u_scale(u);
    if (kDelta) solve_chunk(stage, u, u_scale);

    uint32_t left[kChunk / 16][4];
#pragma unroll
    for (int j = 0; j < kChunk / 16; ++j) pack_left(left[j], u[2 * j], u[2 * j + 1], u_scale.down);
#pragma unroll
    for (int n = 0; n < kChunk / 8; ++n) {
      float own[4] = {};
#pragma unroll
      for (int j = 0; j <= n / 2; ++j)
        mma_16x8x16(own, left[j], right_word(stage.p, 8 * n, 16 * j), right_word(stage.p, 8 * n, 16 * j + 8));
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = 8 * n + 2 * t + e % 2;
        if (first + i >= args.tokens) continue;
        const float sum = stage.from_start[i] * s_scale.up * out[n][e] + u_scale.up * own[e];
        args.out[(first + i) * channels + channel + e / 2 * 8] = stage.q_length[i] * sum + skip * v[n][e];
      }
    }

#pragma unroll
    for (int n = 0; n < kChunk / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) u[n][e] *= stage.to_end[8 * n + 2 * t + e % 2];
#pragma unroll
    for (int j = 0; j < kChunk / 16; ++j) pack_left(left[j], u[2 * j], u[2 * j + 1], u_scale.down);
    const float keep = stage.from_start[kChunk - 1];
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      uint32_t b[4];
      load_matrix_transposed_x4(b, &stage.k[lane][8 * n]);
      float change[4] = {};
      mma_16x8x16(change, left[0], b[0], b[1]);
      mma_16x8x16(change, left[1], b[2], b[3]);
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] = keep * s[n][e] + u_scale.up * change[e];
    }
  }
#pragma unroll
  for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) state[(e / 2 * 8) * kDim + 8 * n + e % 2] = s[n][e];
}

inline bool takes_chunks(const ChunkArgs& args, int dim) {
  return args.tokens >= kChunk && (dim == 64 || dim == 128) && args.rows % 16 == 0 && args.q_stride % 4 == 0 &&
         args.k_stride % 4 == 0 && reinterpret_cast<uintptr_t>(args.q) % 16 == 0 &&
         reinterpret_cast<uintptr_t>(args.k) % 16 == 0;
}

template <bool kDelta>
void launch_chunks(const Launch& launch, const ChunkArgs& args, int dim) {
  int warps = 6;
  while (args.rows / 16 % warps != 0) --warps;
  const auto run = [&]<int kDim>() {
    const auto kernel = chunks_kernel<kDim, kDelta>;
    allow_dynamic_shared_memory(kernel, sizeof(ChunkStage<kDim>));
    launch(kernel, dim3(args.rows / 16 / warps, args.heads), warps * kWarp, sizeof(ChunkStage<kDim>), args,
           launch.stamps());
  };
  dim == 64 ? run.template operator()<64>() : run.template operator()<128>();
}

} // namespace ridge::kernels::cuda
