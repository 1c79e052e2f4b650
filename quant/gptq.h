// Encoding with error feedback (GPTQ: Frantar et al. 2022, in the equivalent form of LDLQ): columns are rounded one
// after another, and the columns that follow compensate the error of each, as far as the inputs of the matrix are
// correlated. The result is an ordinary block of the format.
//
// The encoder of the format finds a block's scales when the block is reached, from the weights with all feedback so
// far. Its importance is D (quant/hessian.h): the cost of a column's error that remains after feedback.
#pragma once

#include "quant/hessian.h"
#include "quant/registry.h"

namespace ridge::quant {

// Whether the format stores a separate code for each weight, so that weights can be rounded one by one, or points of a
// codebook, which are chosen for eight weights together (quant/lattice_feedback.h).
bool can_encode_with_feedback(Type type);

// As encode_rows_parallel, with the factor of the matrix's Hessian in place of importance.
void encode_with_feedback(Type type, const float* weights, int64_t rows, int64_t cols, const CpuHessian::Factor& factor,
                          std::byte* out);

} // namespace ridge::quant
