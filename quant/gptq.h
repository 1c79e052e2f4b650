// Encoding with error feedback (GPTQ: Frantar et al. 2022, in the equivalent form of LDLQ): columns are rounded one
// after another, and what is lost in one is made up for in those to come, as far as the inputs of the matrix are
// correlated. The result is an ordinary block of the format.
//
// Scales are the encoder's own, found for a block when it is reached: with the weights as they then are, and with D
// (quant/hessian.h) for importance, which is what a column's error still costs after feedback.
#pragma once

#include "quant/hessian.h"
#include "quant/registry.h"

namespace ridge::quant {

// Whether the format keeps a code of its own for each weight; else there is nothing to round one by one.
bool can_encode_with_feedback(Type type);

// As encode_rows_parallel, with the factor of the matrix's Hessian in place of importance.
void encode_with_feedback(Type type, const float* weights, int64_t rows, int64_t cols, const CpuHessian::Factor& factor,
                          std::byte* out);

} // namespace ridge::quant
