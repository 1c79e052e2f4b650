// The arguments of integer_product.cuh.
#pragma once

#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/runtime/glu.h"

namespace ridge::kernels::cuda {

inline constexpr int kIntegerRows = 64; // per tile; if gated, half of each matrix

struct IntegerProductArgs {
  GemmArgs product; // x in HalfLayout::bytes
  bool gated;       // segments 0 and 1 are gate and up; what `glu` makes of them is the result, at segment 0's out
  FusedGlu glu;
};

} // namespace ridge::kernels::cuda
