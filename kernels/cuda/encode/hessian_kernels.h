#pragma once

#include "quant/registry.h"

#include <cuda_runtime.h>

namespace ridge::kernels::cuda {

inline constexpr int kCholeskyBlock = 64;

// out[n][n], upper triangle: h with rows and columns reversed, plus `damping` on the diagonal.
void launch_reverse(const float* h, int64_t n, float damping, float* out, cudaStream_t stream);
// The leading k x k (at most kCholeskyBlock) upper triangle becomes U, a = Uᵀ U. *failed = 1: not positive definite.
void launch_small_cholesky(float* a, int64_t stride, int k, int* failed, cudaStream_t stream);
// From U, reversed[H] = Uᵀ U: m and d of quant::CpuHessian::Factor.
void launch_factor(const float* u, int64_t n, float* m, float* d, cudaStream_t stream);

inline constexpr int kErrorBlocks = 256;
// partial[kErrorBlocks]: sums of e (2 t - diag(h) e), e and t [rows][n]; e H eᵀ if t is e times H's upper triangle.
void launch_output_error(const float* e, const float* t, const float* h, int64_t rows, int64_t n, double* partial,
                         cudaStream_t stream);

// sums[lane] = -Σ error gradient over columns; both [cols][lanes].
void launch_lane_errors(const float* error, const float* gradient, int64_t cols, int64_t lanes, double* sums,
                        cudaStream_t stream);
// gradient = first in lanes without a mark; both [cols][lanes].
void launch_keep_lanes(const uint8_t* marked, const float* first, int64_t cols, int64_t lanes, float* gradient,
                       cudaStream_t stream);

// quant::CodeMap on the device.
struct CodeTables {
  const float* midpoints; // ascending
  const float* levels;    // ascending
  const uint8_t* patterns;
  const int16_t* owner; // per bit of a block: weight * 8 + bit of the pattern, or -1
  int ranks;
};

// Encodes a block of columns with error feedback into `packed`. target, weights: first column, rows `stride` apart; m:
// the block's diagonal. errors: weight less decoded weight.
void launch_feedback(quant::Type type, const CodeTables& tables, const float* target, const float* weights,
                     const float* m, int64_t stride, int64_t rows, uint8_t* packed, float* errors, cudaStream_t stream);

} // namespace ridge::kernels::cuda
