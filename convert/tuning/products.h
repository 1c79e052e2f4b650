// Products and exponentials in f32 on the CPU. Sums do not depend on threads.
#pragma once

#include <cstdint>

namespace ridge::convert::tuning {

// Element (i, j) is data[i * row + j * col].
struct Strided {
  const float* data;
  int64_t row, col;
};

float dot(const float* a, const float* b, int64_t n);

// C [m][n] += A B, with k columns of A. c_row: distance of C's rows, 0: n.
void add_product(int64_t m, int64_t n, int64_t k, Strided a, Strided b, float* c, int64_t c_row = 0);
// C = A B.
void set_product(int64_t m, int64_t n, int64_t k, Strided a, Strided b, float* c, int64_t c_row = 0);

// x = exp(x + shift), of at least -87 and at most 88. Returns their sum.
float exponentials(float* x, int64_t n, float shift = 0);

} // namespace ridge::convert::tuning
