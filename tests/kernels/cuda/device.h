// GPU tests pass without a GPU, but fail if one cannot be used (no driver, a build without CUDA).
#pragma once

#include "kernels/cuda/executor/executor.h"
#include "quant/registry.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <string>

namespace ridge::tests {

inline bool have_gpu() { // device files exist, whatever the driver says
  for (int i = 0; i < 16; ++i)
    if (std::filesystem::exists("/dev/nvidia" + std::to_string(i))) return true;
  return false;
}

// Small matrices use the ways of large ones.
struct GpuOptions : kernels::cuda::CudaOptions {
  GpuOptions() { least_side = 4096; }
};
inline std::unique_ptr<core::Executor>
make_cuda_executor(const core::Program& program, const core::ExecutorConfig& config, const GpuOptions& options = {}) {
  return kernels::cuda::make_cuda_executor(program, config, options);
}

inline std::unique_ptr<core::Executor> make_executor(const core::Program& program, const core::ExecutorConfig& config) {
  return make_cuda_executor(program, config);
}

// NMSE of fast mode: 16-bit activations; below two bits per weight 8-bit ones, ggml's bound for backends. AFFINE8's
// offsets of some 128 scales amplify the rounding of activations: 2e-4 in one of four seeds of a whole transformer.
inline double single_token_bound(const quant::FormatInfo& format) {
  return 8 * format.block_bytes < 2 * format.block_weights || format.type == quant::Type::AFFINE8 ? 5e-4 : 1e-5;
}

} // namespace ridge::tests

#define REQUIRE_DEVICE()                                                                                               \
  if (const auto info = ridge::kernels::cuda::device_info(); !info.usable) {                                           \
    REQUIRE_MESSAGE(!ridge::tests::have_gpu(), "there is a GPU, but: ", info.problem);                                 \
    MESSAGE("skipped: no CUDA device");                                                                                \
    return;                                                                                                            \
  }                                                                                                                    \
  static_assert(true)
