// The arguments of a product for 17 to 512 rows of activations on Hopper.
#pragma once

#include "kernels/cuda/plan/wide_cut.h"
#include "kernels/cuda/small_batch/batch.h"

namespace ridge::kernels::cuda {

struct WideArgs {
  BatchArgs batch; // product.x is HalfLayout::wide
  int log2_parts;  // WideCut
};

} // namespace ridge::kernels::cuda
