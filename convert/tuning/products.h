// Matrix products in f32 on the CPU. Sums do not depend on threads.
#pragma once

#include <cstdint>

namespace ridge::convert::tuning {

// Element (i, j) is data[i * row + j * col].
struct Strided {
  const float* data;
  int64_t row, col;
};

float dot(const float* a, const float* b, int64_t n);

// C [m][n] += A B, with k columns of A.
void add_product(int64_t m, int64_t n, int64_t k, Strided a, Strided b, float* c);

} // namespace ridge::convert::tuning
