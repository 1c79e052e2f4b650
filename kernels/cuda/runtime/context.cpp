#include "kernels/cuda/runtime/context.h"

namespace ridge::kernels::cuda {
namespace {

DeviceLimits chip_limits(int device) {
  DeviceLimits limits;
  limits.sm_count = device_attribute(cudaDevAttrMultiProcessorCount, device);
  limits.shared_per_block = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return limits;
}

Stream stream_on(int device) {
  const CurrentDevice current(device);
  return Stream(-1);
}

} // namespace

int device_attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  RIDGE_CUDA(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

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

DeviceContext::DeviceContext(int device, const DeviceLimits& limits)
    : device_(device), limits_(limits), stream_(stream_on(device)) {}

DeviceContext::DeviceContext(int device) : DeviceContext(device, chip_limits(device)) {}

Launch DeviceContext::launch() const {
  Launch launch;
  static_cast<ChipLimits&>(launch) = limits_;
  launch.stream = stream_.handle;
  return launch;
}

} // namespace ridge::kernels::cuda
