#include "kernels/cuda/runtime/context.h"

#include "kernels/cuda/gemm/prompt_product.h"
#include "kernels/cuda/runtime/probe.h"

#include <algorithm>

namespace ridge::kernels::cuda {
namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  RIDGE_CUDA(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

int compute_of(int device, int as_compute) {
  const int compute = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
                      attribute(cudaDevAttrComputeCapabilityMinor, device);
  return as_compute > 0 ? std::min(compute, as_compute) : compute;
}

// What the chip can do, as far as the code that runs was compiled for it.
DeviceLimits limits_of_device(int device, int as_compute) {
  const CurrentDevice current(device);
  DeviceLimits limits =
      limits_of(compute_of(device, as_compute), attribute(cudaDevAttrMultiProcessorCount, device));
  const int shared = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
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

// With as_compute, of such a chip with this one's multiprocessors, clock and memory.
ChipRates rates_of_device(int device, int as_compute) {
  constexpr double kHertz = 1e3, kPerMicrosecond = 1e-6; // the driver's clocks are in kHz
  const double memory_clock = attribute(cudaDevAttrMemoryClockRate, device) * kHertz,
               memory_bytes = attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8.0;
  return rates_of(compute_of(device, as_compute), attribute(cudaDevAttrMultiProcessorCount, device), attribute(cudaDevAttrClockRate, device) / kHertz,
                  2 * memory_clock * memory_bytes * kPerMicrosecond);
}

Stream stream_on(int device) {
  const CurrentDevice current(device);
  return Stream(-1);
}

} // namespace

CurrentDevice::CurrentDevice(int device) : device_(device) {
  RIDGE_CUDA(cudaGetDevice(&before_));
  if (before_ != device_) RIDGE_CUDA(cudaSetDevice(device_));
}

CurrentDevice::~CurrentDevice() {
  if (before_ != device_) cudaSetDevice(before_);
}

cudaDeviceProp current_device_properties() {
  int device = 0;
  RIDGE_CUDA(cudaGetDevice(&device));
  cudaDeviceProp properties;
  RIDGE_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties;
}

DeviceContext::DeviceContext(int device, int as_compute)
    : device_(device), limits_(limits_of_device(device, as_compute)), rates_(rates_of_device(device, as_compute)),
      stream_(stream_on(device)) {}

Launch DeviceContext::launch() const {
  Launch launch;
  static_cast<ChipLimits&>(launch) = limits_;
  launch.stream = stream_.handle;
  return launch;
}

} // namespace ridge::kernels::cuda
