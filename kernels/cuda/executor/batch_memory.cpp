#include "kernels/cuda/executor/batch_memory.h"

#include <algorithm>

namespace ridge::kernels::cuda {

BatchMemory::BatchMemory(int64_t max_batch)
    : memory_(4 * max_batch * sizeof(int32_t), "the batch"), pinned_(4 * max_batch * sizeof(int32_t)) {
  const auto split = [&](int32_t* base) {
    return Arrays{base, base + max_batch, base + 2 * max_batch, base + 3 * max_batch};
  };
  device_ = split(memory_.as<int32_t>());
  host_ = split(pinned_.as<int32_t>());
}

void BatchMemory::load(const core::Batch& batch, cudaStream_t stream) {
  std::ranges::copy(batch.tokens, host_.tokens);
  std::ranges::copy(batch.positions, host_.positions);
  if (batch.streams.empty())
    std::fill_n(host_.streams, batch.tokens.size(), 0);
  else
    std::ranges::copy(batch.streams, host_.streams);
  std::ranges::copy(batch.outputs, host_.outputs);
  RIDGE_CUDA(cudaMemcpyAsync(memory_.as(), pinned_.as(), memory_.bytes(), cudaMemcpyHostToDevice, stream));
}

} // namespace ridge::kernels::cuda
