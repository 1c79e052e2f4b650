// The arguments of a product for 17 to 512 rows of activations on Hopper.
#pragma once

#include "kernels/cuda/products/wide_cut.h"
#include "kernels/cuda/small_batch/batch.h"

namespace ridge::kernels::cuda {

struct WideArgs {
  int log2_parts; // WideCut
  // The launcher fills these in: blocks with different rows; and pairs of units of each part of the columns, of which
  // the first longer_pieces have one more.
  Divisor row_blocks;
  int piece_pairs, longer_pieces;
  BatchArgs batch; // product.x is HalfLayout::wide
};

} // namespace ridge::kernels::cuda
