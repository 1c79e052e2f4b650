// Decodes one stream with the host one token behind: it enqueues the next step before it waits for a token. With draft
// tokens a step chooses until one of them is wrong.
#pragma once

#include "core/sampler.h"
#include "kernels/cuda/executor/batch_memory.h"
#include "kernels/cuda/sampling/sample_state.h"

#include <span>
#include <vector>

namespace ridge::kernels::cuda {

class DecodeLoop {
 public:
  // Takes over the state of `sampler`; the token to be chosen from `logits` [vocab] has `position`. Returns true if
  // memory moved: captured launches then hold stale addresses.
  bool start(const core::Sampler& sampler, int64_t context, int32_t position, const float* logits, int64_t vocab,
             const BatchMemory::Arrays& batch, cudaStream_t stream);

  // Chooses from row `row` of `outputs`, which are the last rows of a batch of `tokens`. Call after start().
  SampleArgs args(int64_t row, int64_t outputs, int64_t tokens) const;
  int32_t position() const { return position_; } // of the next step

  // Call after enqueuing choices.
  void record_choice(int64_t next_position, cudaStream_t stream);
  bool has_unread_token() const { return read_ < enqueued_; }
  // Waits for the oldest unread token. -1: unusable logits.
  int32_t read_token();
  // Waits for all unread tokens.
  std::span<const int32_t> read_tokens();

  size_t bytes() const { return memory_.bytes() + ring_.bytes(); }

 private:
  bool allocate(int32_t ring_size, const float* logits, int64_t vocab, const BatchMemory::Arrays& batch,
                cudaStream_t stream);

  DeviceMemory memory_;
  DeviceMemory ring_; // tokens that penalties count
  PinnedMemory host_; // SampleState, kChosenSlots tokens, number of steps
  Event chosen_[2];   // the host waits for one while the next is enqueued
  int64_t enqueued_ = 0, read_ = 0;
  std::vector<int32_t> tokens_;
  int32_t position_ = 0;
  SampleArgs args_ = {};
};

} // namespace ridge::kernels::cuda
