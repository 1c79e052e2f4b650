// What no sum of a product exceeds in magnitude: row_sum * (the largest element of the input's row) + bias. From it
// follows, before the product, with which power of two f16 has room for a row of its result.
#pragma once

namespace ridge::kernels::cuda {

struct ProductBound {
  float row_sum; // the largest sum of magnitudes of a row of weights
  float bias;    // the largest magnitude
};

} // namespace ridge::kernels::cuda
