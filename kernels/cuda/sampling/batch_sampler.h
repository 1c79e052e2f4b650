// Choosing a token for each of several rows of logits, of sequences that have a sampler each. One launch does all of
// them; the samplers' states come from the host with every launch.
#pragma once

#include "core/sampler.h"
#include "kernels/cuda/sampling/sampling.h"

#include <span>

namespace ridge::kernels::cuda {

class BatchSampler {
 public:
  // Whether the device can choose with these parameters: as DecodeLoop, but without penalties, whose counts are the
  // host's.
  static bool can_sample(const core::SamplerParams& params);

  // The token that each sampler would draw from its row of `logits` [samplers][vocab]; null: any token. -1: the row is
  // unusable. Waits for it. Valid until the next call.
  std::span<const int32_t> choose(std::span<const core::Sampler* const> samplers, const float* logits, int64_t vocab,
                                  const Launch& launch);

  size_t bytes() const { return memory_.bytes(); }

 private:
  void allocate(int64_t rows, int64_t vocab, cudaStream_t stream);

  int64_t rows_ = 0;
  DeviceMemory memory_; // states, best of chunks, lists
  PinnedMemory host_;   // states, tokens
  SampleArgs args_ = {};
};

} // namespace ridge::kernels::cuda
