// What the Hessian on the GPU launches besides cuBLAS.
#pragma once

#include "quant/registry.h"

#include <cuda_runtime.h>

namespace ridge::kernels::cuda {

inline constexpr int kCholeskyBlock = 64;

// out[n][n], on and above the diagonal: h (symmetric, held there too) with rows and columns in reverse order, and
// `damping` added on the diagonal.
void launch_reverse(const float* h, int64_t n, float damping, float* out, cudaStream_t stream);
// The leading k x k (at most kCholeskyBlock) of a, upper triangle, becomes U, a = Uᵀ U. *failed = 1: not positive
// definite.
void launch_small_cholesky(float* a, int64_t stride, int k, int* failed, cudaStream_t stream);
// From U, reversed[H] = Uᵀ U: m and d as in quant::CpuHessian::Factor.
void launch_factor(const float* u, int64_t n, float* m, float* d, cudaStream_t stream);

inline constexpr int kErrorBlocks = 256;
// partial[kErrorBlocks]: sums of e (2 t - diag(h) e), e and t [rows][n]: e H eᵀ where t = e times H's upper triangle.
void launch_output_error(const float* e, const float* t, const float* h, int64_t rows, int64_t n, double* partial,
                         cudaStream_t stream);

// quant::CodeMap as a kernel reads it, in device memory.
struct CodeTables {
  const float* midpoints;  // [ranks - 1], ascending
  const float* levels;     // [ranks], ascending
  const uint8_t* patterns; // [ranks]: the bits of the code
  const int16_t* owner;    // [8 * block bytes]: weight * 8 + bit of the pattern that a bit of the block keeps, or -1
  int ranks;
};

// One block of columns of `rows` rows: the codes in `packed` [rows][block bytes] become those that feed each column's
// error on to the later columns of the block. target, weights: the block's first column, rows `stride` apart; m: its
// place on the diagonal. errors: [rows][block weights], weight less decoded weight.
void launch_feedback(quant::Type type, const CodeTables& tables, const float* target, const float* weights,
                     const float* m, int64_t stride, int64_t rows, uint8_t* packed, float* errors, cudaStream_t stream);

} // namespace ridge::kernels::cuda
