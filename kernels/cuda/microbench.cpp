#include "kernels/cuda/microbench.h"

#include "core/error.h"
#include "kernels/cuda/executor.h"
#include "kernels/cuda/microbench.cuh"

#include <memory>

namespace ridge::kernels::cuda {

std::vector<core::Ceiling> measure_ceilings() {
  if (const DeviceInfo info = device_info(); !info.usable) throw_error("CUDA: {}", info.problem);
  Bench bench;
  RIDGE_CUDA(cudaGetDeviceProperties(&bench.properties, 0));
  bench.launch.sm_count = bench.properties.multiProcessorCount;
  cudaStream_t stream = nullptr;
  RIDGE_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const std::unique_ptr<CUstream_st, void (*)(cudaStream_t)> owner(stream,
                                                                   [](cudaStream_t s) { cudaStreamDestroy(s); });
  bench.launch.stream = stream;
  measure_memory(bench);
  measure_rates(bench);
  measure_latencies(bench);
  return std::move(bench.ceilings);
}

} // namespace ridge::kernels::cuda
