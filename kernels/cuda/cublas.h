// cuBLAS, loaded at run time so that ridge starts without it: the yardstick of the ladder.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace ridge::kernels::cuda {

class Cublas {
 public:
  Cublas();
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  const std::string& problem() const { return problem_; } // why it cannot be used; empty: it can
  // C = A B, row-major [n, n], f32 throughout: tf32 and anything else that is less is forbidden. Throws Error.
  void multiply(cudaStream_t stream, int n, const float* a, const float* b, float* c) const;

 private:
  void* handle_ = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*set_stream_)(void*, cudaStream_t) = nullptr;
  int (*sgemm_)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*,
                float*, int) = nullptr;
  std::string problem_;
};

} // namespace ridge::kernels::cuda
