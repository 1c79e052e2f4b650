// The arguments of expand.cuh.
#pragma once

#include "kernels/cuda/runtime/limits.h"

#include <cstdint>

namespace ridge::kernels::cuda {

// Row r becomes row first + r * stride of the operand.
struct ExpandSegment {
  const uint8_t* weights;
  int rows, first;
};
struct ExpandArgs {
  int segments, cols, stride;
  int64_t row_bytes;
  uint8_t* out;
  int out_rows;
  ExpandSegment segment[kMaxSegments];
};

} // namespace ridge::kernels::cuda
