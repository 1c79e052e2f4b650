// cuBLAS, loaded at run time so that ridge starts without it: the yardstick of the ladder, and the large products of
// calibration.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

namespace ridge::kernels::cuda {

// All matrices are f32, and products f32 throughout: tf32 and anything else that is less is forbidden. Throws Error.
class Cublas {
 public:
  Cublas();
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  const std::string& problem() const { return problem_; } // why it cannot be used; empty: it can

  // C = A B, row-major [n, n].
  void multiply(cudaStream_t stream, int n, const float* a, const float* b, float* c) const;

  // Row-major C [m, n] = A [m, k] B [k, n] + beta C; the strides are those of rows.
  void multiply(cudaStream_t stream, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_stride, const float* b,
                int64_t b_stride, float beta, float* c, int64_t c_stride) const;
  // Row-major C [n, n] += sign * X Xᵀ (X [n, k]) or, `transposed`, Xᵀ X (X [k, n]), on and above the diagonal.
  void add_square(cudaStream_t stream, int64_t n, int64_t k, float sign, const float* x, int64_t x_stride,
                  bool transposed, float* c, int64_t c_stride) const;
  // Row-major B [k, n] becomes U⁻ᵀ B, U [k, k] upper triangular.
  void solve(cudaStream_t stream, int64_t k, int64_t n, const float* u, int64_t u_stride, float* b,
             int64_t b_stride) const;

 private:
  void expect(int status, const char* call) const;

  void* handle_ = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*set_stream_)(void*, cudaStream_t) = nullptr;
  int (*sgemm_)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*,
                float*, int) = nullptr;
  int (*ssyrk_)(void*, int, int, int, int, const float*, const float*, int, const float*, float*, int) = nullptr;
  int (*strsm_)(void*, int, int, int, int, int, int, const float*, const float*, int, float*, int) = nullptr;
  std::string problem_;
};

} // namespace ridge::kernels::cuda
