// The batch in device memory, where kernels read it when they run: a captured graph serves any batch of its shape.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/device.h"

#include <array>
#include <vector>

namespace ridge::kernels::cuda {

class BatchMemory {
 public:
  struct Arrays { // [max_batch] each
    int32_t *tokens, *positions, *streams, *outputs;
  };

  BatchMemory(const core::Program& program, const core::ExecutorConfig& config);

  // The previous batch's copy must have ended.
  void load(const core::Batch& batch, int device, cudaStream_t stream);
  // For tokens whose places follow the last output's.
  void load_following(core::Batch batch, int device, cudaStream_t stream);
  // Places the first token behind token `last`, when kernels write its token and position.
  void follow(int64_t last, cudaStream_t stream);

  // Takes effect on later launches.
  void set_adapters(int32_t stream, std::span<const core::AdapterUse> uses, cudaStream_t on);

  const Arrays& device() const { return device_; }
  const Arrays& host() const { return host_; }
  const TokenPlace* places() const { return places_.as<TokenPlace>(); } // [max_batch]; null: none
  const float* rows() const { return rows_.as<float>(); }
  const core::AdapterUse* adapters() const { return adapters_.as<core::AdapterUse>(); } // [streams][adapters]
  size_t bytes() const { return memory_.bytes() + places_.bytes() + rows_.bytes() + adapters_.bytes(); }

 private:
  void load_places(const core::Batch& batch, cudaStream_t stream);

  DeviceMemory memory_; // one allocation, for one copy per batch
  PinnedMemory pinned_;
  Arrays device_, host_;
  DeviceMemory places_, rows_, adapters_;
  PinnedMemory places_host_;
  bool sees_ahead_;
  std::array<int32_t, core::kPlaceAxes> last_shift_ = {};
  std::vector<int32_t> stream_ends_, axes_;
  int64_t placed_ = 0; // places on the device are zero from here on
};

} // namespace ridge::kernels::cuda
