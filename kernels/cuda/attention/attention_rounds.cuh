// Arithmetic of the attention kernel's rounds.
#pragma once

#include "kernels/cuda/attention/attention_fetch.cuh"

namespace ridge::kernels::cuda {

// A lane has rows 8 n + 2 t + k.
template <typename Shape>
__device__ __forceinline__ void find_visible(int (&visible)[Shape::kTiles][2], const AttentionBlock<Shape>& block) {
#pragma unroll
  for (int n = 0; n < Shape::kTiles; ++n)
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int row = 8 * n + 2 * block.t + k;
      if (Shape::kTokenTiles || row >= block.rows) {
        visible[n][k] = block.end;
      } else {
        const int token = block.first_token + block.token_of(row);
        visible[n][k] = min(block.end, (Shape::kRun ? block.first_new() + token : block.args.positions[token]) + 1);
      }
    }
}

// cap * tanh(score / cap), in log2 units.
template <typename Shape>
__device__ __forceinline__ void cap_scores(float (&score)[Shape::kTiles][2][4], float cap) {
  const float by = 2 * kLog2e / cap;
#pragma unroll
  for (int n = 0; n < Shape::kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float twice = exp2_approx((score[n][0][i] + score[n][1][i]) * by);
      score[n][0][i] = cap - 2 * cap * reciprocal(twice + 1), score[n][1][i] = 0;
    }
}

// A warp's part of a round: exponentials of scores less the maximum, this maximum, their sum.
template <typename Shape>
struct ScoreRound {
  static constexpr int kTiles = Shape::kTiles;
  float warp_max[kTiles][2], warp_total[kTiles][2];
  uint32_t weight[kTiles][2];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int k = 0; k < 2; ++k) warp_max[n][k] = -INFINITY, warp_total[n][k] = 0, weight[n][k] = 0;
  }

  // Scores of keys base + 8 i + g in rows 8 n + 2 t + k, in two sums for shorter chains: [2 i + k] of each.
  using Scores = float[kTiles][2][4];
  static __device__ __forceinline__ void multiply(Scores& score, const AttentionBlock<Shape>& block,
                                                  const AttentionKeys<Shape>& keys,
                                                  const typename AttentionKeys<Shape>::Fragment& held,
                                                  const Queries<Shape>& query) {
#pragma unroll
    for (int c = 0; c < Shape::kChunks; ++c) {
      const uint4 k0 = keys.halves(held, 0, c), k1 = keys.halves(held, 1, c);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const uint4 q = *reinterpret_cast<const uint4*>(&query[8 * n + block.g][32 * c + 8 * block.t]);
        mma_16x8x16(score[n][0], {k0.x, k1.x, k0.y, k1.y}, q.x, q.y);
        mma_16x8x16(score[n][1], {k0.z, k1.z, k0.w, k1.w}, q.z, q.w);
      }
    }
  }

  __device__ __forceinline__ void find_weights(const Scores& score, const AttentionKeys<Shape>& keys, int base,
                                               const int (&visible)[kTiles][2]) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float p[2][2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        float s[2], largest = -INFINITY;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          s[i] = keys.row(base, i) < visible[n][k] ? score[n][0][2 * i + k] + score[n][1][2 * i + k] : -INFINITY;
          largest = fmaxf(largest, s[i]);
        }
        for (int lanes = 4; lanes < kWarp; lanes *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
        largest = ceilf(largest); // so that factors are powers of two, exact in f16
        const float reference = largest == -INFINITY ? 0 : largest;
        warp_max[n][k] = largest;
#pragma unroll
        for (int i = 0; i < 2; ++i) p[i][k] = exp2_approx(s[i] - reference);
        float sum = p[0][k] + p[1][k];
        for (int lanes = 4; lanes < kWarp; lanes *= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
        warp_total[n][k] = sum;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) weight[n][i] = transposed_8x8(pack_half2(p[i][0], p[i][1]));
    }
  }

  __device__ __forceinline__ void share(const AttentionBlock<Shape>& block, RoundOf<Shape>& round) const {
    const int g = block.g, t = block.t, warp = block.warp;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        *reinterpret_cast<uint32_t*>(&round.weights[8 * n + g][kKeysPerWarp * warp + 8 * i + 2 * t]) = weight[n][i];
      if (g < 2) {
        round.largest[8 * n + 2 * t + g][warp] = g ? warp_max[n][1] : warp_max[n][0];
        round.sums[8 * n + 2 * t + g][warp] = g ? warp_total[n][1] : warp_total[n][0];
      }
    }
  }
};

// A warp's running outputs over the keys of warps first_part_warp on. Lanes 4 g + t hold row 8 n + g's maximum and sum.
template <typename Shape>
class AttentionOutputs {
  static constexpr int kTiles = Shape::kTiles, kPartWarps = Shape::kPartWarps, kColumnTiles = Shape::kColumnTiles;
  static constexpr int kColumnWarps = Shape::kDim / (16 * kColumnTiles);

 public:
  // out: columns g (twice) and g + 8 of rows 8 n + 2 t + k. A separate struct keeps the other members in registers.
  struct Running {
    float row_max[kTiles], row_sum[kTiles], out[kTiles][kColumnTiles][4];
    __device__ __forceinline__ void clear() {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        row_max[n] = -INFINITY, row_sum[n] = 0;
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j)
          for (float& o : out[n][j]) o = 0;
      }
    }
  };
  // A sink has no value: it initializes a row's maximum and sum. Rounded up like all maxima.
  __device__ __forceinline__ void add_sinks(Running& running, const Sinks& sinks) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
      if (const int row = 8 * n + block_.g; row < block_.rows) {
        running.row_max[n] = ceilf(sinks[row]);
        if (first_part_warp == 0) running.row_sum[n] = exp2_approx(sinks[row] - running.row_max[n]);
      }
  }
  int first_column, first_part_warp;

  __device__ __forceinline__ explicit AttentionOutputs(const AttentionBlock<Shape>& block)
      : first_column(16 * kColumnTiles * (block.warp % kColumnWarps)),
        first_part_warp(kPartWarps * (block.warp / kColumnWarps)), block_(block) {}

  __device__ __forceinline__ void add_round(Running& running, const RoundOf<Shape>& round, bool is_first) const {
    float factor[kTiles][kPartWarps];
    rescale(running, factor, round, is_first);
    multiply(running, factor, round);
  }

  // Adds up two warps' parts of the same columns (kKeyParts == 2) through `dynamic`.
  __device__ __forceinline__ void merge_parts(Running& running, void* dynamic) const {
    if constexpr (Shape::kKeyParts == 2) {
      const int lane = block_.lane, warp = block_.warp;
      auto* parts = reinterpret_cast<float(*)[5 * kTiles][kWarp]>(dynamic);
      __syncthreads();
      if (first_part_warp > 0)
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) parts[warp - kPartWarps][5 * n + i][lane] = running.out[n][0][i];
          parts[warp - kPartWarps][5 * n + 4][lane] = running.row_sum[n];
        }
      __syncthreads();
      if (first_part_warp == 0)
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) running.out[n][0][i] += parts[warp][5 * n + i][lane];
          running.row_sum[n] += parts[warp][5 * n + 4][lane];
        }
    }
  }

  // Writes the results of a tile that is not split, over rotated values; through `dynamic`.
  __device__ __forceinline__ void write_rotated(const Running& running, void* dynamic) const {
    auto* staged = static_cast<float*>(dynamic);
    __syncthreads(); // the last round has been read
    write(running, staged);
    __syncthreads();
    const int lanes = block_.width.get() / 4;
    for (int i = threadIdx.x; i < block_.rows * lanes; i += kAttentionThreads)
      block_.store_result(i / lanes, i % lanes * 4, rotated_quad(reinterpret_cast<const float4*>(staged)[i]));
  }
  // Writes results, to `staged` if given; if the tile is split, to the scratch.
  __device__ __forceinline__ void write(const Running& running, float* staged) const {
    const AttentionBlock<Shape>& b = block_;
    if (first_part_warp != 0) return;
    float* part = b.parts() + b.split * b.part_size();
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float factor = b.used_splits == 1 ? reciprocal(running.row_sum[n]) : 1;
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int row = 8 * n + 2 * b.t + k;
        const float by = __shfl_sync(~0u, factor, 4 * (2 * b.t + k));
        if (row >= b.rows) continue;
        float* to = (staged               ? staged + row * b.width.get()
                     : b.used_splits == 1 ? b.result(row)
                                          : part + 2 * kAttentionRows + row * b.width.get()) +
                    first_column + b.g;
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j) {
          if (!b.width.has(first_column + 16 * j)) continue;
          const float low = running.out[n][j][k] * by, high = running.out[n][j][2 + k] * by;
          if (staged) { // in shared memory
            to[16 * j] = low, to[16 * j + 8] = high;
            continue;
          }
          store_latest(to + 16 * j, low);
          store_latest(to + 16 * j + 8, high);
          if (b.args.out_half && b.used_splits == 1) {
            *b.half_result(row, first_column + b.g + 16 * j) = __float2half_rn(low);
            *b.half_result(row, first_column + b.g + 16 * j + 8) = __float2half_rn(high);
          }
        }
      }
      if (b.used_splits > 1 && b.warp == 0 && b.t == 0 && 8 * n + b.g < b.rows) {
        part[8 * n + b.g] = running.row_max[n];
        part[kAttentionRows + 8 * n + b.g] = running.row_sum[n];
      }
    }
  }

 private:
  // factor: of each warp's exponentials of this round.
  __device__ __forceinline__ void rescale(Running& running, float (&factor)[kTiles][kPartWarps],
                                          const RoundOf<Shape>& round, bool is_first) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float largest[kAttentionWarps], sum[kPartWarps];
#pragma unroll
      for (int w = 0; w < kAttentionWarps; w += 4)
        put(largest + w, *reinterpret_cast<const float4*>(&round.largest[8 * n + block_.g][w]));
#pragma unroll
      for (int w = 0; w < kPartWarps; w += 4)
        put(sum + w, *reinterpret_cast<const float4*>(&round.sums[8 * n + block_.g][first_part_warp + w]));
      float most = running.row_max[n];
#pragma unroll
      for (const float l : largest) most = fmaxf(most, l);
      const float reference = most == -INFINITY ? 0 : most;
      const float rescale_factor = exp2_approx(running.row_max[n] - reference);
      running.row_max[n] = most;
      running.row_sum[n] *= rescale_factor;
#pragma unroll
      for (int w = 0; w < kPartWarps; ++w) {
        const float l =
            Shape::kKeyParts == 1 || first_part_warp == 0 ? largest[w] : largest[(w + kPartWarps) % kAttentionWarps];
        factor[n][w] = exp2_approx(l - reference);
        running.row_sum[n] += sum[w] * factor[n][w];
      }
      if (!is_first)
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const float of_row = __shfl_sync(~0u, rescale_factor, 4 * (2 * block_.t + k));
#pragma unroll
          for (int j = 0; j < kColumnTiles; ++j) running.out[n][j][k] *= of_row, running.out[n][j][2 + k] *= of_row;
        }
    }
  }
  __device__ __forceinline__ void multiply(Running& running, const float (&factor)[kTiles][kPartWarps],
                                           const RoundOf<Shape>& round) const {
    const int lane = block_.lane;
#pragma unroll
    for (int c = 0; c < kPartWarps; c += 2) {
      uint32_t columns[kColumnTiles][2][4];
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          load_matrix_transposed_x4(columns[j][i],
                                    &round.values[kKeysPerWarp * (first_part_warp + c + i) + lane / 16 * 8 + lane % 8]
                                                 [first_column + 16 * j + lane / 8 % 2 * 8]);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        uint32_t w[4];
        load_matrix_x4(w, &round.weights[8 * n + lane % 8][kKeysPerWarp * (first_part_warp + c) + lane / 8 * 8]);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const __half2 by = __float2half2_rn(factor[n][c + i]);
          const auto times = [&](uint32_t pair) {
            const __half2 product = __hmul2(*reinterpret_cast<const __half2*>(&pair), by);
            return *reinterpret_cast<const uint32_t*>(&product);
          };
          const uint32_t low = times(w[2 * i]), high = times(w[2 * i + 1]);
#pragma unroll
          for (int j = 0; j < kColumnTiles; ++j) mma_16x8x16(running.out[n][j], columns[j][i], low, high);
        }
      }
    }
  }

  const AttentionBlock<Shape>& block_;
};

} // namespace ridge::kernels::cuda
