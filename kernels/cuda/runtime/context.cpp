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

DeviceLimits limits_of(int device, int as_compute) {
  const CurrentDevice current(device);
  DeviceLimits limits;
  limits.sm_count = attribute(cudaDevAttrMultiProcessorCount, device);
  limits.shared_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  int major = attribute(cudaDevAttrComputeCapabilityMajor, device),
      minor = attribute(cudaDevAttrComputeCapabilityMinor, device);
  if (as_compute > 0) {
    limits.shared_per_block = std::min(limits.shared_per_block, (as_compute < 80    ? 64
                                                                 : as_compute == 80 ? 163
                                                                                    : 99)
                                                                    << 10);
    if (major > as_compute / 10) major = as_compute / 10, minor = as_compute % 10;
  }
  limits.overlap = major >= 9 && compiled_for() >= 90;
  limits.bulk_copies = limits.overlap;
  limits.small_batch = major >= 8 && compiled_for() >= 80;
  limits.integer_products = limits.small_batch && ((major == 8 && minor > 0) || major == 12);
  Launch launch;
  static_cast<ChipLimits&>(launch) = limits;
  limits.prompt_products = can_multiply_prompts(launch);
  return limits;
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
    : device_(device), limits_(limits_of(device, as_compute)), stream_(stream_on(device)) {}

Launch DeviceContext::launch() const {
  Launch launch;
  static_cast<ChipLimits&>(launch) = limits_;
  launch.stream = stream_.handle;
  return launch;
}

} // namespace ridge::kernels::cuda
