#include "kernels/cuda/executor/kv_cache.h"

namespace ridge::kernels::cuda {
namespace {

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

} // namespace

KvCache::KvCache(const core::Program& program, const core::ExecutorConfig& config, cudaStream_t stream) {
  const int64_t positions = config.streams * config.context;
  const auto k_bytes = [&](const core::KvLayer& kv) {
    return aligned(positions * kv.heads * core::head_bytes(config.k_type, kv.k_dim));
  };
  const auto v_bytes = [&](const core::KvLayer& kv) {
    return aligned(positions * kv.heads * core::head_bytes(config.v_type, kv.v_dim));
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
                   config.context};
    const int64_t rows = positions * kv.heads;
    layer.k = at;
    if (config.k_type == core::KvType::q8_0) layer.k_scales = reinterpret_cast<uint16_t*>(at + rows * kv.k_dim);
    at += k_bytes(kv);
    layer.v = at;
    if (config.v_type == core::KvType::q8_0) layer.v_scales = reinterpret_cast<uint16_t*>(at + rows * kv.v_dim);
    at += v_bytes(kv);
    layers_.push_back(layer);
  }
}

} // namespace ridge::kernels::cuda
