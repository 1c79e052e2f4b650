// The arguments of wide_batch.cuh.
#pragma once

#include "kernels/cuda/products/wide_cut.h"
#include "kernels/cuda/small_batch/batch.h"

namespace ridge::kernels::cuda {

struct WideArgs {
  int log2_parts;
  // Set by the launcher; the first longer_pieces have one pair of units more.
  Divisor row_blocks;
  int piece_pairs, longer_pieces;
  BatchArgs batch; // product.x is HalfLayout::wide
};

} // namespace ridge::kernels::cuda
