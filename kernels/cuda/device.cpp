#include "kernels/cuda/device.h"

#include "core/error.h"

namespace ridge::kernels::cuda {

void throw_failed_call(cudaError_t status, const char* call) {
  cudaGetLastError(); // so that the next call starts clean
  throw_error("CUDA: {} failed: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
}

void throw_out_of_memory(size_t bytes, const char* what) {
  cudaGetLastError();
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  throw_error(
      "CUDA: out of memory: {} needs {:.2f} GB, {:.2f} of {:.2f} GB are free; take a smaller context, a smaller "
      "model or --device cpu",
      what, static_cast<double>(bytes) / 1e9, static_cast<double>(free) / 1e9, static_cast<double>(total) / 1e9);
}

void throw_too_wide(int64_t cols, int64_t shared_needed, int64_t shared_limit) {
  throw_error("CUDA: a matrix of {} columns needs {} bytes of shared memory, this GPU has {} per block", cols,
              shared_needed, shared_limit);
}

} // namespace ridge::kernels::cuda
