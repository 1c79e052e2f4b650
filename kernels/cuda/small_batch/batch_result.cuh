// The epilogue of small batches' products: where a result goes, and what is added to it.
#pragma once

#include "kernels/cuda/runtime/ptx.cuh"
#include "kernels/cuda/small_batch/batch.h"

namespace ridge::kernels::cuda {

// Segment, and row of it, of row i of a tile of 16; with swiglu these are 8 gates and 8 ups.
__device__ __forceinline__ const GemmSegment& batch_row(const BatchArgs& args, int row_tile, int i, int& row) {
  if (args.swiglu) {
    row = row_tile * (kBatchRows / 2) + i % 8;
    return args.product.segment[i / 8];
  }
  int s = 0;
  for (int tiles; row_tile >= (tiles = (args.product.segment[s].rows + kBatchRows - 1) / kBatchRows); ++s)
    row_tile -= tiles;
  row = row_tile * kBatchRows + i;
  return args.product.segment[s];
}

// One element of the results: where it goes and what is added. A kernel looks this up before the sum is known, because
// the loads take as long as a few warp tiles of weights.
struct BatchResult {
  float* to = nullptr; // null: no such row
  float residual = 0;

  // Of row `in_tile` of a row tile, for one row of activations, or slot.
  __device__ __forceinline__ void look_up(const BatchArgs& args, int row_tile, int in_tile, int slot) {
    int row;
    const GemmSegment& segment = batch_row(args, row_tile, in_tile, row);
    if (row >= segment.rows) return;
    const int64_t at = int64_t{slot} * segment.rows + row;
    to = segment.out + at;
    if (args.product.residual) residual = args.product.residual[at];
  }
  // sum_of(i) is the product with row i of the tile, of expert number `expert`, 0 where there are none.
  template <typename SumOf>
  __device__ __forceinline__ void write(const BatchArgs& args, int row_tile, int in_tile, float scale, int expert,
                                        SumOf&& sum_of) const {
    if (!to) return;
    const auto with_bias = [&](int i) {
      int row;
      const GemmSegment& segment = batch_row(args, row_tile, i, row);
      return sum_of(i) * scale + (segment.bias ? segment.bias[int64_t{expert} * segment.rows + row] : 0);
    };
    float value = with_bias(in_tile);
    if (args.swiglu) value = value / (1 + __expf(-value)) * with_bias(in_tile + 8);
    *to = value + residual;
  }
};

// The scale of one activation row's products.
__device__ __forceinline__ float batch_scale(const BatchArgs& args, int slot) {
  return exp2f(static_cast<float>(args.product.exponent[slot / args.used] - kWeightExponent));
}

} // namespace ridge::kernels::cuda
