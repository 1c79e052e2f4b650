// A GPU's number, limits and stream.
#pragma once

#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

// Makes a device current in this thread; the destructor restores the previous one.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int device_, before_ = 0;
};

int device_attribute(cudaDeviceAttr which, int device);

cudaDeviceProp current_device_properties();

class DeviceContext {
 public:
  // The device must be usable (device_info).
  DeviceContext(int device, const DeviceLimits& limits);
  explicit DeviceContext(int device); // with all its multiprocessors and shared memory

  int device() const { return device_; }
  const DeviceLimits& limits() const { return limits_; }
  cudaStream_t stream() const { return stream_.handle; }
  void synchronize() const { RIDGE_CUDA(cudaStreamSynchronize(stream_.handle)); }

  // Launches in the stream, without overlap.
  Launch launch() const;

 private:
  int device_;
  DeviceLimits limits_;
  Stream stream_; // high priority: runs before blocks that decode weights ahead (prompt_product.h)
};

} // namespace ridge::kernels::cuda
