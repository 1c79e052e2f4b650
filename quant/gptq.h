// Error feedback (GPTQ: Frantar et al. 2022, in the equivalent form LDLQ): columns are rounded in order; later columns
// compensate each error as far as inputs correlate.
//
// Scales are searched when a block is reached, with importance D (quant/hessian.h), a column's remaining error cost.
#pragma once

#include "quant/hessian.h"
#include "quant/registry.h"

namespace ridge::quant {

// Formats with a code map, and codebooks (quant/lattice_feedback.h).
bool can_encode_with_feedback(Type type);

void encode_with_feedback(Type type, const float* weights, int64_t rows, int64_t cols, const CpuHessian::Factor& factor,
                          std::byte* out);

} // namespace ridge::quant
