#include "kernels/cuda/executor/state_memory.h"

namespace ridge::kernels::cuda {

StateMemory::StateMemory(const core::Program& program, const core::ExecutorConfig& config, cudaStream_t stream)
    : program_(program) {
  if (program.states.empty()) return;
  // Kernels read 16 bytes at a time.
  const auto padded = [&](const core::StateLayer& state) { return (config.streams * state.width + 63) / 64 * 64; };
  int64_t elements = 0;
  for (const core::StateLayer& state : program.states) elements += padded(state);
  memory_ = DeviceMemory(elements * sizeof(float), "the recurrent state");
  RIDGE_CUDA(cudaMemsetAsync(memory_.as(), 0, memory_.bytes(), stream));
  auto* at = memory_.as<float>();
  for (const core::StateLayer& state : program.states) {
    layers_.push_back(at);
    at += padded(state);
  }
}

void StateMemory::save(int32_t stream, std::span<float> to, cudaStream_t cuda_stream) const {
  float* out = to.data();
  for (size_t i = 0; i < layers_.size(); out += program_.states[i++].width)
    RIDGE_CUDA(cudaMemcpyAsync(out, layers_[i] + stream * program_.states[i].width,
                               program_.states[i].width * sizeof(float), cudaMemcpyDeviceToHost, cuda_stream));
}

void StateMemory::load(int32_t stream, std::span<const float> from, cudaStream_t cuda_stream) const {
  const float* in = from.data();
  for (size_t i = 0; i < layers_.size(); in += program_.states[i++].width)
    RIDGE_CUDA(cudaMemcpyAsync(layers_[i] + stream * program_.states[i].width, in,
                               program_.states[i].width * sizeof(float), cudaMemcpyHostToDevice, cuda_stream));
}

} // namespace ridge::kernels::cuda
