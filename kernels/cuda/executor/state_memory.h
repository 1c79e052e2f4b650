// The recurrent state of all layers and streams, in one allocation.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/runtime/device.h"

#include <span>
#include <vector>

namespace ridge::kernels::cuda {

class StateMemory {
 public:
  // Zeroed in the stream. Throws OutOfMemory. The Program must outlive it.
  StateMemory(const core::Program& program, const core::ExecutorConfig& config, cudaStream_t stream);

  float* layer(int32_t index) const { return layers_[index]; } // of Program::states: [streams][width]
  size_t bytes() const { return memory_.bytes(); }

  // One stream's state, the layers one after the other, to and from the host. Asynchronous in the CUDA stream.
  void save(int32_t stream, std::span<float> to, cudaStream_t cuda_stream) const;
  void load(int32_t stream, std::span<const float> from, cudaStream_t cuda_stream) const;

 private:
  const core::Program& program_;
  DeviceMemory memory_;
  std::vector<float*> layers_;
};

} // namespace ridge::kernels::cuda
