#include "kernels/cuda/runtime/cublas.h"

#include "core/error.h"

#include <dlfcn.h>

namespace ridge::kernels::cuda {

// Declarations follow the cuBLAS reference.
Cublas::Cublas() {
  void* library = nullptr;
  for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so", "/usr/local/cuda/lib64/libcublas.so"})
    if ((library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL))) break;
  if (!library) {
    problem_ = "libcublas.so is missing";
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
      !load(set_stream_, "cublasSetStream_v2") || !load(sgemm_, "cublasSgemm_v2") || !load(ssyrk_, "cublasSsyrk_v2") ||
      !load(strsm_, "cublasStrsm_v2") || !load(sdgmm_, "cublasSdgmm"))
    problem_ = "libcublas.so lacks expected functions";
  else if (create(&handle_) != 0 || set_mode(handle_, kPedanticMath) != 0)
    problem_ = "libcublas.so failed to initialize";
}

Cublas::~Cublas() {
  if (handle_) destroy_(handle_);
}

void Cublas::expect(int status, const char* call) const {
  if (status != 0) throw_error("{} failed with status {}", call, status);
}

void Cublas::multiply(cudaStream_t stream, int n, const float* a, const float* b, float* c) const {
  multiply(stream, n, n, n, a, n, b, n, 0, c, n);
}

// cuBLAS is column-major: C = A B becomes Cᵀ = Bᵀ Aᵀ, and upper triangles become lower ones.
namespace {
constexpr int kPlain = 0, kTransposed = 1, kLower = 0, kLeft = 0, kRight = 1, kNonUnit = 0, kUnit = 1;
int as_int(int64_t n) { return static_cast<int>(n); }
} // namespace

void Cublas::multiply(cudaStream_t stream, int64_t m, int64_t n, int64_t k, const float* a, int64_t a_stride,
                      const float* b, int64_t b_stride, float beta, float* c, int64_t c_stride, float alpha) const {
  expect(set_stream_(handle_, stream), "cublasSetStream");
  expect(sgemm_(handle_, kPlain, kPlain, as_int(n), as_int(m), as_int(k), &alpha, b, as_int(b_stride), a,
                as_int(a_stride), &beta, c, as_int(c_stride)),
         "cublasSgemm");
}

void Cublas::add_product(cudaStream_t stream, int64_t m, int64_t n, int64_t k, const float* a, const float* b,
                         float* c) const {
  const float one = 1;
  expect(set_stream_(handle_, stream), "cublasSetStream");
  expect(sgemm_(handle_, kPlain, kTransposed, as_int(n), as_int(m), as_int(k), &one, b, as_int(n), a, as_int(m), &one,
                c, as_int(n)),
         "cublasSgemm");
}

void Cublas::add_square(cudaStream_t stream, int64_t n, int64_t k, float sign, const float* x, int64_t x_stride,
                        bool transposed, float* c, int64_t c_stride) const {
  const float one = 1;
  expect(set_stream_(handle_, stream), "cublasSetStream");
  expect(ssyrk_(handle_, kLower, transposed ? kPlain : kTransposed, as_int(n), as_int(k), &sign, x, as_int(x_stride),
                &one, c, as_int(c_stride)),
         "cublasSsyrk");
}

// U⁻ᵀ B in rows is Bᵀ U⁻¹ in columns, where U looks lower triangular.
void Cublas::solve(cudaStream_t stream, int64_t k, int64_t n, const float* u, int64_t u_stride, float* b,
                   int64_t b_stride) const {
  const float one = 1;
  expect(set_stream_(handle_, stream), "cublasSetStream");
  expect(strsm_(handle_, kRight, kLower, kTransposed, kNonUnit, as_int(n), as_int(k), &one, u, as_int(u_stride), b,
                as_int(b_stride)),
         "cublasStrsm");
}

// In columns X is Xᵀ and M is Mᵀ: M⁻¹ Xᵀ, then D⁻¹, then M⁻ᵀ.
void Cublas::divide(cudaStream_t stream, int64_t m, int64_t n, const float* unit_upper, const float* inverse,
                    float* x) const {
  const float one = 1;
  const int rows = as_int(m), cols = as_int(n);
  expect(set_stream_(handle_, stream), "cublasSetStream");
  expect(strsm_(handle_, kLeft, kLower, kTransposed, kUnit, cols, rows, &one, unit_upper, cols, x, cols),
         "cublasStrsm");
  expect(sdgmm_(handle_, kLeft, cols, rows, x, cols, inverse, 1, x, cols), "cublasSdgmm");
  expect(strsm_(handle_, kLeft, kLower, kPlain, kUnit, cols, rows, &one, unit_upper, cols, x, cols), "cublasStrsm");
}

} // namespace ridge::kernels::cuda
