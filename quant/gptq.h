// Encoding with error feedback (GPTQ: Frantar et al. 2022, in the equivalent form LDLQ): columns are rounded in order,
// and later columns compensate each error as far as inputs correlate.
//
// A block's scales are searched when the block is reached, from the weights plus feedback, with importance D
// (quant/hessian.h), the remaining cost of a column's error.
#pragma once

#include "quant/hessian.h"
#include "quant/registry.h"

namespace ridge::quant {

// True for formats with a separate code per weight and for codebooks (quant/lattice_feedback.h).
bool can_encode_with_feedback(Type type);

// Like encode_rows_parallel, with the factor of the Hessian in place of importance.
void encode_with_feedback(Type type, const float* weights, int64_t rows, int64_t cols, const CpuHessian::Factor& factor,
                          std::byte* out);

} // namespace ridge::quant
