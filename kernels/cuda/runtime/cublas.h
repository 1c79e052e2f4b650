// cuBLAS, loaded at run time, so that ridge starts without it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

namespace ridge::kernels::cuda {

// Row-major f32 without tf32. Throws Error.
class Cublas {
 public:
  Cublas();
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  const std::string& problem() const { return problem_; } // empty: usable

  // C = A B, all [n, n].
  void multiply(cudaStream_t stream, int n, const float* a, const float* b, float* c) const;

  // C [m, n] = alpha A [m, k] B [k, n] + beta C; strides between rows.
  void multiply(cudaStream_t stream, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_stride, const float* b,
                int64_t b_stride, float beta, float* c, int64_t c_stride, float alpha = 1) const;
  // C [m, n] += Aᵀ B; A [k, m], B [k, n].
  void add_product(cudaStream_t stream, int64_t m, int64_t n, int64_t k, const float* a, const float* b,
                   float* c) const;
  // Upper triangle of C [n, n] += sign * X Xᵀ (X [n, k]) or, `transposed`, Xᵀ X (X [k, n]).
  void add_square(cudaStream_t stream, int64_t n, int64_t k, float sign, const float* x, int64_t x_stride,
                  bool transposed, float* c, int64_t c_stride) const;
  // B [k, n] = U⁻ᵀ B, U upper triangular.
  void solve(cudaStream_t stream, int64_t k, int64_t n, const float* u, int64_t u_stride, float* b,
             int64_t b_stride) const;
  // X [m, n] = X (M D Mᵀ)⁻¹; M [n, n] unit upper triangular, `inverse` = 1 / D.
  void divide(cudaStream_t stream, int64_t m, int64_t n, const float* unit_upper, const float* inverse, float* x) const;

 private:
  void expect(int status, const char* call) const;

  void* handle_ = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*set_stream_)(void*, cudaStream_t) = nullptr;
  int (*sgemm_)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*,
                float*, int) = nullptr;
  int (*ssyrk_)(void*, int, int, int, int, const float*, const float*, int, const float*, float*, int) = nullptr;
  int (*strsm_)(void*, int, int, int, int, int, int, const float*, const float*, int, float*, int) = nullptr;
  int (*sdgmm_)(void*, int, int, int, const float*, int, const float*, int, float*, int) = nullptr;
  std::string problem_;
};

} // namespace ridge::kernels::cuda
