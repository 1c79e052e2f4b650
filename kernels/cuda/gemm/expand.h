// The arguments of decoding packed rows to f16 operands (prompt_product.h).
#pragma once

#include "kernels/cuda/runtime/limits.h"

#include <cstdint>

namespace ridge::kernels::cuda {

// Row r of a segment goes to row first + r * stride of the operand.
struct ExpandSegment {
  const uint8_t* weights;
  int rows, first;
};
struct ExpandArgs {
  int segments, cols, stride;
  int64_t row_bytes; // of the packed rows
  uint8_t* out;
  int out_rows; // of the operand
  ExpandSegment segment[kMostSegments];
};

} // namespace ridge::kernels::cuda
