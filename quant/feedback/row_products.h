// A product of some columns, which error feedback and descent spend most of their time in.
#pragma once

#include <cstdint>

namespace ridge::quant {

inline constexpr int kProductLanes = 32;

// out[k][j] -= Σ a[k][i] x[i][j] for k < rows, i < count, j < kProductLanes; rows of x follow one another, those of a
// and out are a stride apart. Results do not depend on the instruction set.
void subtract_product(const float* a, int64_t a_stride, int64_t rows, const float* x, int64_t count, float* out,
                      int64_t out_stride);

} // namespace ridge::quant
