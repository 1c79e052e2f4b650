#include "kernels/cuda/sampling/batch_sampler.h"

#include "kernels/cuda/sampling/sample_state.h"

namespace ridge::kernels::cuda {

bool BatchSampler::can_sample(const core::SamplerParams& params) {
  return cuda::can_sample(params) && !has_penalties(params);
}

std::span<const int32_t> BatchSampler::choose(std::span<const core::Sampler* const> samplers, const float* logits,
                                              int64_t vocab, const Launch& launch) {
  const auto rows = static_cast<int>(samplers.size());
  if (rows > rows_) allocate(rows, vocab, launch.stream);
  auto* states = host_.as<SampleState>();
  for (int i = 0; i < rows; ++i) states[i] = samplers[i] ? state_of(*samplers[i]) : SampleState{.top_k = 1};
  RIDGE_CUDA(cudaMemcpyAsync(args_.state, states, rows * sizeof(SampleState), cudaMemcpyHostToDevice, launch.stream));
  args_.logits = logits;
  launch_sample_rows(launch, args_, rows);
  RIDGE_CUDA(cudaStreamSynchronize(launch.stream));
  return {args_.chosen, samplers.size()};
}

void BatchSampler::allocate(int64_t rows, int64_t vocab, cudaStream_t stream) {
  const auto aligned = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
  const int64_t state_bytes = aligned(rows * sizeof(SampleState)), best_bytes = rows * kSampleChunks * 4;
  memory_ = DeviceMemory(state_bytes + best_bytes + rows * vocab * 8, "sampling");
  host_ = PinnedMemory(state_bytes + rows * sizeof(int32_t));
  RIDGE_CUDA(cudaMemsetAsync(memory_.as() + state_bytes, 0, best_bytes, stream));
  args_.vocab = vocab;
  args_.state = memory_.as<SampleState>();
  args_.chunk_best = reinterpret_cast<float*>(memory_.as() + state_bytes);
  args_.list = reinterpret_cast<uint64_t*>(memory_.as() + state_bytes + best_bytes);
  args_.chosen = reinterpret_cast<int32_t*>(host_.as() + state_bytes); // mapped
  rows_ = rows;
}

} // namespace ridge::kernels::cuda
