// Decoding one stream with the host one token behind: a step evaluates the token that the step before it chose, chooses
// the next, and writes it to the host's memory. The host enqueues the following step before it waits for that. A step
// with guesses evaluates them behind the token and chooses one token after the other as long as the guesses hold.
#pragma once

#include "core/sampler.h"
#include "kernels/cuda/executor/batch_memory.h"
#include "kernels/cuda/sampling/sample_state.h"

#include <span>
#include <vector>

namespace ridge::kernels::cuda {

class DecodeLoop {
 public:
  // Takes the state of `sampler` over, in the stream: the next token chosen from `logits` [vocab] is that at
  // `position`. True where the memory of the sampler is another one than before: captured launches then hold a wrong
  // address.
  bool start(const core::Sampler& sampler, int64_t context, int32_t position, const float* logits, int64_t vocab,
             const BatchMemory::Arrays& batch, cudaStream_t stream);

  // After the first start(): to choose from logits `row` of a step's `outputs`, in a batch of `tokens`, whose last rows
  // they belong to.
  SampleArgs args(int64_t row, int64_t outputs, int64_t tokens) const;
  int32_t position() const { return position_; } // of the next step to be enqueued

  // A choice, or one with choices behind guesses, was put on the stream. The next step is at this position.
  void record_choice(int64_t next_position, cudaStream_t stream);
  bool has_unread_token() const { return read_ < enqueued_; }
  // Waits for the oldest token that was not read. -1: the logits were unusable.
  int32_t read_token();
  // Waits for all of them, and those behind guesses.
  std::span<const int32_t> read_tokens();

  size_t bytes() const { return memory_.bytes() + ring_.bytes(); }

 private:
  bool allocate(int32_t ring_size, const float* logits, int64_t vocab, const BatchMemory::Arrays& batch,
                cudaStream_t stream);

  DeviceMemory memory_; // SampleState, list, counts, best of chunks
  DeviceMemory ring_;   // tokens that penalties count
  PinnedMemory host_;   // a SampleState, kChosenSlots tokens, the number of steps
  Event chosen_[2];     // tokens are chosen one ahead: the host waits for one while the other is to come
  int64_t enqueued_ = 0, read_ = 0;
  std::vector<int32_t> tokens_; // of read_tokens()
  int32_t position_ = 0;
  SampleArgs args_ = {};
};

} // namespace ridge::kernels::cuda
