#include "kernels/cuda/executor/kv_cache.h"

#include "kernels/cuda/plan/memory_plan.h"

namespace ridge::kernels::cuda {

KvCache::KvCache(const core::Program& program, const core::ExecutorConfig& config, cudaStream_t stream) {
  const auto positions = [&](const core::KvLayer& kv) { return config.streams * kv.entries(config.context); };
  size_t bytes = 0;
  for (const core::KvLayer& kv : program.kv_layers) {
    const CacheBytes of_layer = cache_bytes(kv, config);
    bytes += of_layer.keys + of_layer.values;
  }
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
    at += cache_bytes(kv, config).keys;
    layer.v = at;
    if (config.v_type == core::KvType::q8_0) layer.v_scales = reinterpret_cast<uint16_t*>(at + rows * kv.v_dim);
    at += cache_bytes(kv, config).values;
    layers_.push_back(layer);
    latent_.push_back(kv.latent);
  }
}

void KvCache::copy(int32_t from, int32_t to, int64_t positions, cudaStream_t stream) const {
  const auto copy_heads = [&](const Cache& layer, const void* data, int64_t position_bytes) {
    if (!data || position_bytes == 0) return;
    const int64_t pitch = layer.context * position_bytes;
    auto* at = static_cast<uint8_t*>(const_cast<void*>(data));
    RIDGE_CUDA(cudaMemcpy2DAsync(at + to * layer.heads * pitch, pitch, at + from * layer.heads * pitch, pitch,
                                 positions * position_bytes, layer.heads, cudaMemcpyDeviceToDevice, stream));
  };
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Cache& layer = layers_[i];
    const auto element_bytes = [](const uint16_t* scales, bool half) { return scales ? 1 : half ? 2 : 4; };
    copy_heads(layer, layer.k, layer.k_dim * element_bytes(layer.k_scales, layer.k_half));
    copy_heads(layer, layer.k_scales, layer.k_dim / core::kQ8Block * sizeof(uint16_t));
    if (latent_[i]) continue;
    copy_heads(layer, layer.v, layer.v_dim * element_bytes(layer.v_scales, layer.v_half));
    copy_heads(layer, layer.v_scales, layer.v_dim / core::kQ8Block * sizeof(uint16_t));
  }
}

StateMemory::StateMemory(const core::Program& program, const core::ExecutorConfig& config, cudaStream_t stream)
    : program_(program) {
  if (program.states.empty()) return;
  int64_t elements = 0;
  for (const core::StateLayer& state : program.states) elements += state_floats(state, config);
  memory_ = DeviceMemory(elements * sizeof(float), "the recurrent state");
  RIDGE_CUDA(cudaMemsetAsync(memory_.as(), 0, memory_.bytes(), stream));
  auto* at = memory_.as<float>();
  for (const core::StateLayer& state : program.states) {
    layers_.push_back(at);
    at += state_floats(state, config);
  }
}

// copy(layer, other, bytes) for each layer's state of a stream; `other` has them one after the other.
template <typename Other, typename Copy>
void StateMemory::for_layers(int32_t stream, Other* other, Copy copy) const {
  for (size_t i = 0; i < layers_.size(); other += program_.states[i++].width)
    copy(layers_[i] + stream * program_.states[i].width, other, program_.states[i].width * sizeof(float));
}

void StateMemory::save(int32_t stream, std::span<float> to, cudaStream_t cuda_stream) const {
  for_layers(stream, to.data(), [&](const float* layer, float* out, size_t bytes) {
    RIDGE_CUDA(cudaMemcpyAsync(out, layer, bytes, cudaMemcpyDeviceToHost, cuda_stream));
  });
}

void StateMemory::load(int32_t stream, std::span<const float> from, cudaStream_t cuda_stream) const {
  for_layers(stream, from.data(), [&](float* layer, const float* in, size_t bytes) {
    RIDGE_CUDA(cudaMemcpyAsync(layer, in, bytes, cudaMemcpyHostToDevice, cuda_stream));
  });
}

void StateMemory::mark(int32_t stream, cudaStream_t cuda_stream) {
  if (layers_.empty()) return;
  if (!mark_.bytes()) mark_ = DeviceMemory(core::state_elements(program_) * sizeof(float), "a copy of the state");
  marked_ = stream;
  for_layers(stream, mark_.as<float>(), [&](const float* layer, float* out, size_t bytes) {
    RIDGE_CUDA(cudaMemcpyAsync(out, layer, bytes, cudaMemcpyDeviceToDevice, cuda_stream));
  });
}

void StateMemory::return_to_mark(cudaStream_t cuda_stream) const {
  for_layers(marked_, mark_.as<float>(), [&](float* layer, const float* in, size_t bytes) {
    RIDGE_CUDA(cudaMemcpyAsync(layer, in, bytes, cudaMemcpyDeviceToDevice, cuda_stream));
  });
}

} // namespace ridge::kernels::cuda
