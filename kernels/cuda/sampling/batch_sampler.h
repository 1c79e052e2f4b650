// Samples several rows of logits in one launch.
#pragma once

#include "core/sampler.h"
#include "kernels/cuda/sampling/sampling.h"

#include <span>

namespace ridge::kernels::cuda {

class BatchSampler {
 public:
  // No penalties: the host has their counts.
  static bool can_sample(const core::SamplerParams& params);

  // A token per row of `logits` [samplers][vocab]; null sampler: any; -1: unusable row. Waits. Valid until the next
  // call.
  std::span<const int32_t> choose(std::span<const core::Sampler* const> samplers, const float* logits, int64_t vocab,
                                  const Launch& launch);

  size_t bytes() const { return memory_.bytes(); }

 private:
  void allocate(int64_t rows, int64_t vocab, cudaStream_t stream);

  int64_t rows_ = 0;
  DeviceMemory memory_;
  PinnedMemory host_;
  SampleArgs args_ = {};
};

} // namespace ridge::kernels::cuda
