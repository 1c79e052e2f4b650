#include "kernels/cuda/cublas.h"

#include "core/error.h"

#include <dlfcn.h>

namespace ridge::kernels::cuda {

// Functions and constants are declared as the cuBLAS reference documents them.
Cublas::Cublas() {
  void* library = nullptr;
  for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so", "/usr/local/cuda/lib64/libcublas.so"})
    if ((library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL))) break;
  if (!library) {
    problem_ = "libcublas.so is not there";
    return;
  }
  const auto load = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  int (*create)(void**) = nullptr;
  int (*set_mode)(void*, int) = nullptr;
  constexpr int kPedanticMath = 2;
  if (!load(create, "cublasCreate_v2") || !load(set_mode, "cublasSetMathMode") || !load(destroy_, "cublasDestroy_v2") ||
      !load(set_stream_, "cublasSetStream_v2") || !load(sgemm_, "cublasSgemm_v2"))
    problem_ = "libcublas.so lacks its usual functions";
  else if (create(&handle_) != 0 || set_mode(handle_, kPedanticMath) != 0)
    problem_ = "libcublas.so does not start";
}

Cublas::~Cublas() {
  if (handle_) destroy_(handle_);
}

// Row-major C = A B is column-major Cᵀ = Bᵀ Aᵀ.
void Cublas::multiply(cudaStream_t stream, int n, const float* a, const float* b, float* c) const {
  const float one = 1, zero = 0;
  int status = set_stream_(handle_, stream);
  if (status == 0) status = sgemm_(handle_, 0, 0, n, n, n, &one, b, n, a, n, &zero, c, n);
  if (status != 0) throw_error("cublasSgemm failed with status {}", status);
}

} // namespace ridge::kernels::cuda
