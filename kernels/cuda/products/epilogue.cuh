// Epilogue of one row of a product's results: bias, gate, residual, store. The matvec and prompt products have their
// own: they load residuals before the sums are there, or write several columns at once.
#pragma once

#include "kernels/cuda/products/gemm.h"
#include "kernels/cuda/runtime/glu.h"

namespace ridge::kernels::cuda {

// 0 if there is none. `expert`: of a bias of [experts][rows].
__device__ __forceinline__ float bias_of(const GemmSegment& segment, int row, int expert = 0) {
  return segment.bias && row < segment.rows ? segment.bias[int64_t{expert} * segment.rows + row] : 0;
}

class RowEpilogue {
 public:
  // Loads biases. `gated`: segments 0 and 1 are gate and up, otherwise `segment` is the row's.
  __device__ __forceinline__ RowEpilogue(const GemmArgs& product, const GemmSegment& segment, bool gated, int row,
                                         int expert = 0)
      : segment_(segment), residual_(product.residual), row_(row), bias_(bias_of(segment, row, expert)),
        up_bias_(gated ? bias_of(product.segment[1], row, expert) : 0) {}

  __device__ __forceinline__ void write(int64_t token, float sum) const { store(token, sum + bias_); }
  __device__ __forceinline__ void write(int64_t token, float gate, float up, const FusedGlu& glu) const {
    store(token, glu(gate + bias_, up + up_bias_));
  }

 private:
  __device__ __forceinline__ void store(int64_t token, float value) const {
    if (row_ >= segment_.rows) return;
    const int64_t at = token * segment_.rows + row_;
    segment_.out[at] = residual_ ? value + residual_[at] : value;
  }

  const GemmSegment& segment_;
  const float* residual_;
  int row_;
  float bias_, up_bias_;
};

} // namespace ridge::kernels::cuda
