#include "kernels/cuda/executor/kv_cache.h"

namespace ridge::kernels::cuda {
namespace {

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

} // namespace

KvCache::KvCache(const core::Program& program, const core::ExecutorConfig& config, cudaStream_t stream) {
  const auto positions = [&](const core::KvLayer& kv) { return config.streams * kv.entries(config.context); };
  const auto k_bytes = [&](const core::KvLayer& kv) {
    return aligned(positions(kv) * kv.heads * core::head_bytes(config.k_type, kv.k_dim));
  };
  const auto v_bytes = [&](const core::KvLayer& kv) {
    return kv.latent ? size_t{0} : aligned(positions(kv) * kv.heads * core::head_bytes(config.v_type, kv.v_dim));
  };
  size_t bytes = 0;
  for (const core::KvLayer& kv : program.kv_layers) bytes += k_bytes(kv) + v_bytes(kv);
  memory_ = DeviceMemory(bytes, "the KV cache");
  RIDGE_CUDA(cudaMemsetAsync(memory_.as(), 0, bytes, stream));
  uint8_t* at = memory_.as();
  for (const core::KvLayer& kv : program.kv_layers) {
    Cache layer = {nullptr,
                   nullptr,
                   config.k_type == core::KvType::f16,
                   config.v_type == core::KvType::f16,
                   static_cast<int>(kv.heads),
                   static_cast<int>(kv.k_dim),
                   static_cast<int>(kv.v_dim),
                   kv.entries(config.context)};
    const int64_t rows = positions(kv) * kv.heads;
    layer.k = at;
    if (config.k_type == core::KvType::q8_0) layer.k_scales = reinterpret_cast<uint16_t*>(at + rows * kv.k_dim);
    at += k_bytes(kv);
    layer.v = at;
    if (config.v_type == core::KvType::q8_0) layer.v_scales = reinterpret_cast<uint16_t*>(at + rows * kv.v_dim);
    at += v_bytes(kv);
    layers_.push_back(layer);
  }
}

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
