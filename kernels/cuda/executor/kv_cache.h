// The keys and values of all layers, streams and positions, in one allocation.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/ops/ops.h"

#include <vector>

namespace ridge::kernels::cuda {

class KvCache {
 public:
  // Zeroed in the stream. Throws OutOfMemory.
  KvCache(const core::Program& program, const core::ExecutorConfig& config, cudaStream_t stream);

  const Cache& layer(int32_t index) const { return layers_[index]; } // of Program::kv_layers
  size_t bytes() const { return memory_.bytes(); }

 private:
  DeviceMemory memory_;
  std::vector<Cache> layers_; // views into memory_
};

} // namespace ridge::kernels::cuda
