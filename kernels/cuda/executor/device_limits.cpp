#include "kernels/cuda/executor/device_limits.h"

#include "kernels/cuda/executor/executor.h"
#include "kernels/cuda/gemm/prompt_product.h"
#include "kernels/cuda/runtime/context.h"
#include "kernels/cuda/runtime/probe.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

int compute_of(int device, int as_compute) {
  const int compute = 10 * device_attribute(cudaDevAttrComputeCapabilityMajor, device) +
                      device_attribute(cudaDevAttrComputeCapabilityMinor, device);
  return as_compute > 0 ? std::min(compute, as_compute) : compute;
}

} // namespace

DeviceLimits device_limits(int device, int as_compute) {
  const CurrentDevice current(device);
  DeviceLimits limits =
      limits_of(compute_of(device, as_compute), device_attribute(cudaDevAttrMultiProcessorCount, device));
  const int shared = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  limits.shared_per_block = as_compute > 0 ? std::min(shared, limits.shared_per_block) : shared;
  const int compiled = compiled_for();
  limits.overlap = limits.bulk_copies = limits.overlap && compiled >= 90;
  limits.small_batch = limits.small_batch && compiled >= 80;
  limits.integer_products = limits.integer_products && limits.small_batch;
  Launch launch;
  static_cast<ChipLimits&>(launch) = limits;
  limits.prompt_products = can_multiply_prompts(launch);
  return limits;
}

ChipRates device_rates(int device, int as_compute) {
  constexpr double kHertz = 1e3, kPerMicrosecond = 1e-6; // clocks are in kHz
  const double memory_clock = device_attribute(cudaDevAttrMemoryClockRate, device) * kHertz,
               memory_bytes = device_attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8.0;
  return rates_of(compute_of(device, as_compute), device_attribute(cudaDevAttrMultiProcessorCount, device),
                  device_attribute(cudaDevAttrClockRate, device) / kHertz,
                  2 * memory_clock * memory_bytes * kPerMicrosecond);
}

std::string describe_rates(int device) {
  if (!device_info(device).usable) return "";
  const ChipRates rates = device_rates(device, 0);
  constexpr double kTera = 1e6; // rates are per microsecond
  std::string text = fmt::format("{:.2f} TB/s read, {:.0f} TFLOP/s of f16 and {:.0f} TOPS of int8 by mma",
                                 rates.bytes / kTera, 2 * rates.half_products / kTera, 2 * rates.byte_products / kTera);
  if (rates.wgmma_products > 0) text += fmt::format(", {:.0f} TFLOP/s by wgmma", 2 * rates.wgmma_products / kTera);
  return text;
}

} // namespace ridge::kernels::cuda
