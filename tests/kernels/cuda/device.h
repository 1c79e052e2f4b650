// What GPU tests share: how one ends where there is no GPU: with a word, and without failing. Where there is one that
// cannot be used (no driver, a build without CUDA) it fails.
#pragma once

#include "kernels/cuda/executor/executor.h"
#include "quant/registry.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <string>

namespace ridge::tests {

inline bool have_gpu() { // the driver's files are there, whatever it says when it is asked
  for (int i = 0; i < 16; ++i)
    if (std::filesystem::exists("/dev/nvidia" + std::to_string(i))) return true;
  return false;
}

// The small matrices of tests go the ways that large ones go.
struct GpuOptions : kernels::cuda::CudaOptions {
  GpuOptions() { least_side = 4096; }
};
inline std::unique_ptr<core::Executor>
make_cuda_executor(const core::Program& program, const core::ExecutorConfig& config, const GpuOptions& options = {}) {
  return kernels::cuda::make_cuda_executor(program, config, options);
}

// With the default options, as tests::MakeExecutor.
inline std::unique_ptr<core::Executor> make_executor(const core::Program& program, const core::ExecutorConfig& config) {
  return make_cuda_executor(program, config);
}

// Bound on a matrix's NMSE, fast mode, token by token: that of 16-bit activations; with formats below two bits a weight
// of 8-bit ones, for which ggml's own bound on a backend is taken.
inline double single_token_bound(const quant::FormatInfo& format) {
  return 8 * format.block_bytes < 2 * format.block_weights ? 3.5e-4 : 1e-5;
}

} // namespace ridge::tests

#define REQUIRE_DEVICE()                                                                                               \
  if (const auto info = ridge::kernels::cuda::device_info(); !info.usable) {                                           \
    REQUIRE_MESSAGE(!ridge::tests::have_gpu(), "there is a GPU, but: ", info.problem);                                 \
    MESSAGE("skipped: no CUDA device");                                                                                \
    return;                                                                                                            \
  }                                                                                                                    \
  static_assert(true)
