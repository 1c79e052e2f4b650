// Bounds results: row_sum * (largest element of the input's row) + bias. Gives an f16 exponent before results exist.
#pragma once

namespace ridge::kernels::cuda {

struct ProductBound {
  float row_sum; // largest sum of magnitudes of a row
  float bias;    // largest magnitude
};

} // namespace ridge::kernels::cuda
