#include "kernels/cuda/runtime/device.h"

#include "core/error.h"
#include "kernels/cuda/runtime/context.h"
#include "kernels/cuda/runtime/device_info.h"
#include "kernels/cuda/runtime/probe.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

namespace ridge::kernels::cuda {

void throw_failed_call(cudaError_t status, const char* call) {
  cudaGetLastError(); // clears the error
  throw DeviceFailed(fmt::format("CUDA: {} failed: {} ({}); use --device cpu to run without the GPU", call,
                                 cudaGetErrorString(status), cudaGetErrorName(status)));
}

void throw_out_of_memory(size_t bytes, const char* what) {
  cudaGetLastError();
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  const auto gib = [](size_t n) { return static_cast<double>(n) / (1 << 30); };
  throw OutOfMemory(fmt::format("CUDA: out of memory: {} needs {:.2f} GiB, {:.2f} of {:.2f} GiB are free", what,
                                gib(bytes), gib(free), gib(total)));
}

void throw_too_wide(int64_t cols, int64_t shared_needed, int64_t shared_limit) {
  throw_error("CUDA: a matrix of {} columns needs {} bytes of shared memory, this GPU has {} per block", cols,
              shared_needed, shared_limit);
}

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

DeviceInfo device_info(int device) {
  DeviceInfo info;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    info.problem = status == cudaSuccess                   ? "no NVIDIA GPU"
                   : status == cudaErrorInsufficientDriver ? "no NVIDIA driver, or one too old for this build"
                                                           : cudaGetErrorString(status);
    return info;
  }
  if (device < 0 || device >= count) {
    info.problem = fmt::format("no NVIDIA GPU with number {}", device);
    return info;
  }
  const CurrentDevice current(device);
  cudaDeviceProp properties;
  RIDGE_CUDA(cudaGetDeviceProperties(&properties, device));
  size_t free = 0, total = 0;
  RIDGE_CUDA(cudaMemGetInfo(&free, &total));
  info.usable = true;
  info.name = properties.name;
  char bus[32] = "";
  RIDGE_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, device));
  info.bus = bus;
  info.sm_count = properties.multiProcessorCount;
  info.compute_major = properties.major;
  info.compute_minor = properties.minor;
  info.memory_bytes = static_cast<double>(total);
  info.free_bytes = static_cast<double>(free);
  return info;
}

void allow_shared_memory(const void* kernel, size_t bytes) {
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, size_t> allowed;
  int device = 0;
  RIDGE_CUDA(cudaGetDevice(&device));
  const std::scoped_lock lock(mutex);
  size_t& most = allowed[{device, kernel}];
  if (bytes <= most) return;
  RIDGE_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  most = bytes;
}

double measure_read_bandwidth(int device) {
  // 2 GiB, or half of the free memory: more than caches hold.
  constexpr size_t kMax = size_t{2} << 30, kMin = size_t{128} << 20;
  constexpr int kRuns = 9;
  const CurrentDevice current(device);
  const DeviceContext context(device);
  size_t free = 0, total = 0;
  RIDGE_CUDA(cudaMemGetInfo(&free, &total));
  const size_t bytes = std::clamp(free / 2, kMin, kMax) / kReadBytes * kReadBytes;
  const DeviceMemory data(bytes, "the bandwidth measurement"), sink(4, "the bandwidth measurement");
  RIDGE_CUDA(cudaMemset(data.as(), 0x5b, bytes));
  const TimedEvent start, stop;
  std::vector<double> seconds;
  for (int i = 0; i <= kRuns; ++i) {
    start.record(context.stream());
    launch_read(context.launch(), data.as(), bytes, sink.as<uint32_t>());
    stop.record(context.stream());
    context.synchronize();
    if (i > 0) seconds.push_back(stop.seconds_since(start)); // the first run warms up
  }
  std::ranges::nth_element(seconds, seconds.begin() + kRuns / 2);
  return static_cast<double>(bytes) / seconds[kRuns / 2];
}

} // namespace ridge::kernels::cuda
