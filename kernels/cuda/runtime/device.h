// Owners of CUDA objects. RIDGE_CUDA throws an Error with the failed call's name.
#pragma once

#include "kernels/cuda/runtime/limits.h"
#include "kernels/cuda/runtime/timeline.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace ridge::kernels::cuda {

// Not inline: nvcc cannot compile fmt's format strings.
[[noreturn]] void throw_failed_call(cudaError_t status, const char* call);
[[noreturn]] void throw_out_of_memory(size_t bytes, const char* what);
[[noreturn]] void throw_too_wide(int64_t cols, int64_t shared_needed, int64_t shared_limit);

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw_failed_call(status, call);
}
#define RIDGE_CUDA(call) ::ridge::kernels::cuda::check((call), #call)

template <cudaError_t (*kFree)(void*)>
class Memory {
 public:
  Memory() = default;
  ~Memory() { kFree(data_); }
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }

  template <typename T = uint8_t>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 protected:
  void* data_ = nullptr;
  size_t bytes_ = 0;

 private:
  void swap(Memory& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }
};

// Throws OutOfMemory.
class DeviceMemory : public Memory<cudaFree> {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(size_t bytes, const char* what) {
    if (bytes == 0) return;
    const cudaError_t status = cudaMalloc(&data_, bytes);
    if (status == cudaErrorMemoryAllocation) throw_out_of_memory(bytes, what);
    check(status, "cudaMalloc");
    bytes_ = bytes;
  }
};

class PinnedMemory : public Memory<cudaFreeHost> {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(size_t bytes) {
    RIDGE_CUDA(cudaMallocHost(&data_, bytes));
    bytes_ = bytes;
  }
};

struct Stream {
  cudaStream_t handle = nullptr;
  // Lower priority numbers start first; 0 is the highest number.
  explicit Stream(int priority = 0) {
    RIDGE_CUDA(cudaStreamCreateWithPriority(&handle, cudaStreamNonBlocking, priority));
  }
  ~Stream() { cudaStreamDestroy(handle); }
  Stream(const Stream&) = delete;
};

struct Event {
  cudaEvent_t handle = nullptr;
  Event() { RIDGE_CUDA(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
};

struct TimedEvent {
  cudaEvent_t handle = nullptr;
  TimedEvent() { RIDGE_CUDA(cudaEventCreate(&handle)); }
  ~TimedEvent() { cudaEventDestroy(handle); }
  TimedEvent(const TimedEvent&) = delete;

  void record(cudaStream_t stream) const { RIDGE_CUDA(cudaEventRecord(handle, stream)); }
  // Both must have happened.
  double seconds_since(const TimedEvent& start) const {
    float milliseconds = 0;
    RIDGE_CUDA(cudaEventElapsedTime(&milliseconds, start.handle, handle));
    return milliseconds * 1e-3;
  }
};

struct Graph {
  cudaGraphExec_t handle = nullptr;
  Graph() = default;
  // Captures what launch() puts into the stream.
  template <typename LaunchAll>
  void capture(cudaStream_t stream, LaunchAll&& launch) {
    cudaGraph_t captured = nullptr;
    RIDGE_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    try {
      launch();
    } catch (...) {
      cudaStreamEndCapture(stream, &captured);
      if (captured) cudaGraphDestroy(captured);
      throw;
    }
    RIDGE_CUDA(cudaStreamEndCapture(stream, &captured));
    const cudaError_t status = cudaGraphInstantiate(&handle, captured, 0);
    cudaGraphDestroy(captured);
    check(status, "cudaGraphInstantiate");
  }
  ~Graph() {
    if (handle) cudaGraphExecDestroy(handle);
  }
  Graph(const Graph&) = delete;
};

// Launch configuration. Kernels wait for their predecessors themselves where the chip can.
struct Launch : ChipLimits {
  cudaStream_t stream = nullptr;
  bool overlap = false;     // programmatic dependent launch
  LaunchLog* log = nullptr; // while profiling

  // Stamps of the next kernel, or null.
  Stamp* stamps() const { return log && log->stamps ? log->stamps + log->blocks * kStampPlaces : nullptr; }

  template <typename... Params, typename... Args>
  void operator()(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes, Args&&... args) const {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = overlap ? 1 : 0;
    check(cudaLaunchKernelEx(&config, kernel, Params(std::forward<Args>(args))...), "kernel launch");
    if (log) log->add(size_t{grid.x} * grid.y * grid.z);
  }
};

// Allows this much dynamic shared memory, which together with static memory may exceed the default 48 KB. Never lowers
// a limit: another thread may rely on it.
void allow_shared_memory(const void* kernel, size_t bytes);
template <typename Kernel>
void allow_dynamic_shared_memory(Kernel* kernel, size_t bytes) {
  if (bytes > 32 << 10) allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes);
}

} // namespace ridge::kernels::cuda
