// One GPU as an executor sees it: its number, its limits, the stream for its work. CUDA calls that act on the current
// device are made while a CurrentDevice lives.
#pragma once

#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

// Makes a device the calling thread's current one, and the device that was current before again at the end.
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

// Properties of the calling thread's current device.
cudaDeviceProp current_device_properties();

class DeviceContext {
 public:
  // The device must be usable (device_info).
  DeviceContext(int device, const DeviceLimits& limits);
  explicit DeviceContext(int device); // with the multiprocessors and the shared memory that it has

  int device() const { return device_; }
  const DeviceLimits& limits() const { return limits_; }
  cudaStream_t stream() const { return stream_.handle; }
  void synchronize() const { RIDGE_CUDA(cudaStreamSynchronize(stream_.handle)); }

  // How kernels are launched by default: in the stream, each after its predecessor's end.
  Launch launch() const;

 private:
  int device_;
  DeviceLimits limits_;
  Stream stream_; // of high priority: goes before the blocks that decode weights for later (prompt_product.h)
};

} // namespace ridge::kernels::cuda
