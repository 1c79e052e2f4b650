// GPUs and errors, without CUDA headers.
#pragma once

#include "core/error.h"

#include <string>

namespace ridge::kernels::cuda {

struct DeviceInfo {
  bool usable = false;
  std::string name; // "NVIDIA H200"
  std::string bus;  // "0000:3b:00.0"
  std::string problem;
  int sm_count = 0, compute_major = 0, compute_minor = 0;
  double memory_bytes = 0, free_bytes = 0;
};
DeviceInfo device_info(int device = 0);
int device_count(); // 0 without a driver

// The message has needed and available bytes.
class OutOfMemory : public core::Error {
 public:
  using Error::Error;
};

// A CUDA call failed; the process may have lost the GPU.
class DeviceFailed : public core::Error {
 public:
  using Error::Error;
};

// Read bandwidth beyond caches in bytes per second: the limit of decoding.
double measure_read_bandwidth(int device = 0);

} // namespace ridge::kernels::cuda
