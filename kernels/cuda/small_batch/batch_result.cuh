// Results of small batches' products: bias, gate, residual, and where they go.
#pragma once

#include "kernels/cuda/products/epilogue.cuh"
#include "kernels/cuda/products/half_layout.h"
#include "kernels/cuda/runtime/ptx.cuh"
#include "kernels/cuda/small_batch/batch.h"

namespace ridge::kernels::cuda {

// If gated, a tile of 16 has 8 gates and 8 ups.
__device__ __forceinline__ const GemmSegment& batch_row(const BatchArgs& args, int row_tile, int i, int& row) {
  if (args.gated) {
    row = row_tile * (kBatchRows / 2) + i % 8;
    return args.product.segment[i / 8];
  }
  int s = 0;
  for (int tiles; row_tile >= (tiles = (args.product.segment[s].rows + kBatchRows - 1) / kBatchRows); ++s)
    row_tile -= tiles;
  row = row_tile * kBatchRows + i;
  return args.product.segment[s];
}

__device__ __forceinline__ float batch_scale(int exponent) {
  return exp2f(static_cast<float>(exponent - kWeightExponent));
}

__device__ __forceinline__ float4 operator+(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

// Stores partial sums at the lane's first token and row. Eight lanes fill 32 bytes.
__device__ __forceinline__ void leave_sums(const BatchArgs& args, float* to, float4 sum) {
  const int64_t next_token = int64_t{args.row_tiles} * kBatchRows;
  to[0] = sum.x, to[next_token] = sum.y;
  to[8] = sum.z, to[next_token + 8] = sum.w;
}

// A lane's results as mma.sync leaves them: rows g and g + 8, each for tokens 2 t and 2 t + 1 (g = lane / 4, t = lane %
// 4).
class BatchResults {
 public:
  __device__ __forceinline__ BatchResults(const BatchArgs& args, int row_tile, int expert) : args_(args) {
    const int g = threadIdx.x % kWarp / 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const GemmSegment& segment = batch_row(args, row_tile, g + 8 * h, row_[h]);
      out_[h] = segment.out, rows_[h] = segment.rows;
      real_[h] = row_[h] < segment.rows;
      bias_[h] = bias_of(segment, row_[h], expert);
    }
  }
  // `slot`: of the lane's two tokens; -1: none.
  __device__ __forceinline__ float4 addends(const int (&slot)[2]) const {
    float4 v = {bias_[0], bias_[0], bias_[1], bias_[1]};
    if (!args_.gated)
      v = v + float4{residual(0, slot[0]), residual(0, slot[1]), residual(1, slot[0]), residual(1, slot[1])};
    return v;
  }
  // `sum`: with the addends.
  __device__ __forceinline__ void write(float4 sum, const int (&slot)[2]) const {
    float largest[2];
    write<false>(sum, slot, largest);
  }
  // kHalf: also as f16 if wanted. `largest`: maxima of both tokens.
  template <bool kHalf>
  __device__ __forceinline__ void write(float4 sum, const int (&slot)[2], float (&largest)[2]) const {
    if (args_.gated) {
      const float v[2] = {args_.glu(sum.x, sum.z) + residual(0, slot[0]),
                          args_.glu(sum.y, sum.w) + residual(0, slot[1])};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        store(0, slot[i], v[i]);
        if (kHalf && args_.out_half) store_half(slot[i], v[i]), largest[i] = fmaxf(largest[i], fabsf(v[i]));
      }
    } else {
      store(0, slot[0], sum.x), store(0, slot[1], sum.y);
      store(1, slot[0], sum.z), store(1, slot[1], sum.w);
    }
  }

 private:
  __device__ __forceinline__ void store_half(int slot, float value) const {
    if (!real_[0] || slot < 0) return;
    const int64_t at = interleaved_place(args_.out_rows, slot, row_[0] / 8) * 8 + interleaved_column(row_[0] % 8);
    reinterpret_cast<__half*>(args_.out_half)[at] = __float2half_rn(value);
  }
  __device__ __forceinline__ float residual(int h, int slot) const {
    const float* from = args_.product.residual;
    return from && real_[h] && slot >= 0 ? from[place(h, slot)] : 0;
  }
  __device__ __forceinline__ void store(int h, int slot, float value) const {
    if (real_[h] && slot >= 0) out_[h][place(h, slot)] = value;
  }
  __device__ __forceinline__ int64_t place(int h, int slot) const { return int64_t{slot} * rows_[h] + row_[h]; }

  const BatchArgs& args_;
  float* out_[2];
  int row_[2], rows_[2];
  bool real_[2];
  float bias_[2];
};

} // namespace ridge::kernels::cuda
