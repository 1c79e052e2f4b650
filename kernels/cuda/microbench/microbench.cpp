#include "kernels/cuda/microbench/microbench.h"

#include "core/error.h"
#include "kernels/cuda/microbench/microbench.cuh"
#include "kernels/cuda/runtime/context.h"
#include "kernels/cuda/runtime/device_info.h"

namespace ridge::kernels::cuda {
namespace {

template <typename... Parts>
std::vector<core::Ceiling> measure(Parts... parts) {
  if (const DeviceInfo info = device_info(); !info.usable) throw_error("CUDA: {}", info.problem);
  Bench bench;
  bench.properties = current_device_properties();
  bench.launch.sm_count = bench.properties.multiProcessorCount;
  const Stream stream;
  bench.launch.stream = stream.handle;
  (parts(bench), ...);
  return std::move(bench.ceilings);
}

} // namespace

std::vector<core::Ceiling> measure_ceilings() {
  const auto measure_reads = [](Bench& bench) {
    bench.add("dram_read", core::Ceiling::Unit::bytes_per_second, measure_read_bandwidth(),
              "2 GiB (or half of what is free) in 16-byte loads");
  };
  return measure(measure_reads, measure_memory, measure_rates, measure_latencies);
}

core::Ceiling measure_f16_rate() {
  const std::vector<core::Ceiling> rates = measure(measure_f16_rates);
  if (rates.empty()) throw_error("CUDA: this build does not support the tensor cores of this GPU");
  return *std::ranges::max_element(rates, {}, &core::Ceiling::value);
}

} // namespace ridge::kernels::cuda
