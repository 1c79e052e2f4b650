// The batch in device memory: what kernels read of it when they run, so that a captured graph serves any batch of its
// shape.
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

  // Copies a batch in, in the stream. The batch before it must have been copied.
  void load(const core::Batch& batch, cudaStream_t stream);
  // The same for tokens whose places follow those of the last output that was loaded.
  void load_following(core::Batch batch, cudaStream_t stream);
  // The first token's places follow those of token `last`: for a step whose token and position are written by kernels.
  void follow(int64_t last, cudaStream_t stream);

  // How much of each adapter counts for a stream, from what is launched next on.
  void set_adapters(int32_t stream, std::span<const core::AdapterUse> uses, cudaStream_t on);

  const Arrays& device() const { return device_; }
  const Arrays& host() const { return host_; }                          // as last loaded
  const TokenPlace* places() const { return places_.as<TokenPlace>(); } // [max_batch]; null: tokens have none
  const float* rows() const { return rows_.as<float>(); }               // core::Batch::rows
  const core::AdapterUse* adapters() const { return adapters_.as<core::AdapterUse>(); } // [streams][adapters]
  size_t bytes() const { return memory_.bytes() + places_.bytes() + rows_.bytes() + adapters_.bytes(); }

 private:
  void load_places(const core::Batch& batch, cudaStream_t stream);

  DeviceMemory memory_; // one allocation, so that one copy brings the batch in
  PinnedMemory pinned_;
  Arrays device_, host_;
  DeviceMemory places_, rows_, adapters_;
  PinnedMemory places_host_;
  bool sees_ahead_;                                       // core::sees_ahead: where streams end is always wanted
  std::array<int32_t, core::kPlaceAxes> last_shift_ = {}; // of the last output's token
  std::vector<int32_t> stream_ends_, axes_;
  int64_t placed_ = 0; // places on the device are zero but for the first so many
};

} // namespace ridge::kernels::cuda
