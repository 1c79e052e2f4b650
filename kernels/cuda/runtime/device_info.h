// Which GPUs there are, and how calls to them fail. Like executor/executor.h, without CUDA headers.
#pragma once

#include "core/error.h"

#include <string>

namespace ridge::kernels::cuda {

struct DeviceInfo {
  bool usable = false;
  std::string name;    // "NVIDIA H200"
  std::string bus;     // where it is on the PCI bus: "0000:3b:00.0"
  std::string problem; // why not usable: no driver, no GPU, …
  int sm_count = 0, compute_major = 0, compute_minor = 0;
  double memory_bytes = 0, free_bytes = 0;
};
DeviceInfo device_info(int device = 0);
int device_count(); // GPUs that the driver shows; 0 where there is no driver

// Thrown where not enough of the GPU's memory is free, or allowed; the message has what was needed and what there is.
class OutOfMemory : public core::Error {
 public:
  using Error::Error;
};

// Thrown where a CUDA call fails: the GPU is gone, or this process cannot use it any more.
class DeviceFailed : public core::Error {
 public:
  using Error::Error;
};

// Bytes per second of a kernel that only reads, over a buffer much larger than the caches: the roof of decoding.
double measure_read_bandwidth(int device = 0);

} // namespace ridge::kernels::cuda
