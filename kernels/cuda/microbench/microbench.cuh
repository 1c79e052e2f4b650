#pragma once

#include "core/ceiling.h"
#include "kernels/cuda/runtime/device.h"

#include <algorithm>
#include <vector>

namespace ridge::kernels::cuda {

struct Bench {
  Launch launch;
  cudaDeviceProp properties;
  std::vector<core::Ceiling> ceilings;

  void add(const char* name, core::Ceiling::Unit unit, double value, const char* how) {
    ceilings.push_back({name, unit, value, how});
  }
};

// GPU time, after a warm-up.
template <typename Work>
double median_seconds(cudaStream_t stream, int runs, Work&& work) {
  const TimedEvent start, stop;
  std::vector<float> milliseconds(runs);
  for (int i = -1; i < runs; ++i) {
    RIDGE_CUDA(cudaEventRecord(start.handle, stream));
    work();
    RIDGE_CUDA(cudaEventRecord(stop.handle, stream));
    RIDGE_CUDA(cudaEventSynchronize(stop.handle));
    if (i >= 0) RIDGE_CUDA(cudaEventElapsedTime(&milliseconds[i], start.handle, stop.handle));
  }
  std::ranges::nth_element(milliseconds, milliseconds.begin() + runs / 2);
  return milliseconds[runs / 2] * 1e-3;
}

void measure_memory(Bench&);
void measure_f16_rates(Bench&);
void measure_rates(Bench&);
void measure_latencies(Bench&);

} // namespace ridge::kernels::cuda
