// Where the products of small batches put their results.
#pragma once

#include "kernels/cuda/batch.h"
#include "kernels/cuda/ptx.cuh"

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

// The result of row `in_tile` of a row tile for one row of activations, or slot; sum_of(i) is the product with the
// tile's row i.
template <typename SumOf>
__device__ __forceinline__ void write_batch_result(const BatchArgs& args, int row_tile, int in_tile, int slot,
                                                   SumOf&& sum_of) {
  const GemmArgs& product = args.product;
  int row;
  const GemmSegment& segment = batch_row(args, row_tile, in_tile, row);
  if (row >= segment.rows) return;
  const float scale = exp2f(static_cast<float>(product.exponent[slot / args.used] - kWeightExponent));
  float value = sum_of(in_tile) * scale;
  if (segment.bias) value += segment.bias[row];
  if (args.swiglu) {
    float up = sum_of(in_tile + 8) * scale;
    if (product.segment[1].bias) up += product.segment[1].bias[row];
    value = value / (1 + __expf(-value)) * up;
  }
  const int64_t at = int64_t{slot} * segment.rows + row;
  if (product.residual) value += product.residual[at];
  segment.out[at] = value;
}

} // namespace ridge::kernels::cuda
