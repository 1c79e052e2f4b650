// Decoding one stream with the host one token behind: a step evaluates the token that the step before it chose, chooses
// the next, and writes it to the host's memory. The host enqueues the following step before it waits for that.
#pragma once

#include "core/sampler.h"
#include "kernels/cuda/executor/batch_memory.h"
#include "kernels/cuda/sampling/sampling.h"

namespace ridge::kernels::cuda {

class DecodeLoop {
 public:
  // Whether the device can choose tokens with these parameters.
  static bool can_sample(const core::SamplerParams& params);

  // Takes the state of `sampler` over, in the stream: the next token chosen from `logits` [vocab] is that at
  // `position`. True where the memory of the sampler is another one than before: captured launches then hold a wrong
  // address.
  bool start(const core::Sampler& sampler, int64_t context, int32_t position, const float* logits, int64_t vocab,
             const BatchMemory::Arrays& batch, cudaStream_t stream);

  const SampleArgs& args() const { return args_; } // after the first start()
  int32_t position() const { return position_; }   // of the next step to be enqueued

  // A choice was put on the stream.
  void record_choice(cudaStream_t stream);
  void advance() { ++position_; }
  bool has_unread_token() const { return read_ < enqueued_; }
  // Waits for the oldest token that was not read. -1: the logits were unusable.
  int32_t read_token();

  size_t bytes() const { return memory_.bytes() + ring_.bytes(); }

 private:
  bool allocate(int32_t ring_size, const float* logits, int64_t vocab, const BatchMemory::Arrays& batch,
                cudaStream_t stream);

  DeviceMemory memory_; // SampleState, list, counts, best of chunks
  DeviceMemory ring_;   // tokens that penalties count
  PinnedMemory host_;   // a SampleState, two tokens
  Event chosen_[2];     // tokens are chosen one ahead: the host reads one of two slots while the other is filled
  int64_t enqueued_ = 0, read_ = 0;
  int32_t position_ = 0;
  SampleArgs args_ = {};
};

} // namespace ridge::kernels::cuda
