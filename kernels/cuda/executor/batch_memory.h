// The batch in device memory: what kernels read of it when they run, so that a captured graph serves any batch of its
// shape.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/runtime/device.h"

namespace ridge::kernels::cuda {

class BatchMemory {
 public:
  struct Arrays { // [max_batch] each
    int32_t *tokens, *positions, *streams, *outputs;
  };

  explicit BatchMemory(int64_t max_batch);

  // Copies a batch in, in the stream. The batch before it must have been copied.
  void load(const core::Batch& batch, cudaStream_t stream);

  const Arrays& device() const { return device_; }
  const Arrays& host() const { return host_; } // as last loaded
  size_t bytes() const { return memory_.bytes(); }

 private:
  DeviceMemory memory_; // one allocation, so that one copy brings the batch in
  PinnedMemory pinned_;
  Arrays device_, host_;
};

} // namespace ridge::kernels::cuda
