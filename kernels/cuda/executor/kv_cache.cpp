#include "kernels/cuda/executor/kv_cache.h"

#include "kernels/cuda/plan/memory_plan.h"

#include <algorithm>

namespace ridge::kernels::cuda {

namespace {

int64_t padded(int64_t bytes) { return (bytes + 15) / 16 * 16; }

} // namespace

KvCache::KvCache(const core::Program& program, const core::ExecutorConfig& config, cudaStream_t stream)
    : rows_(core::cache_rows(program, config)) {
  size_t bytes = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const CacheBytes of_layer = cache_bytes(program.kv_layers[i], rows_[i].rows, config);
    bytes += of_layer.keys + of_layer.values;
  }
  memory_ = DeviceMemory(bytes, "the KV cache");
  RIDGE_CUDA(cudaMemsetAsync(memory_.as(), 0, bytes, stream));
  uint8_t* at = memory_.as();
  for (size_t i = 0; i < rows_.size(); ++i) {
    const core::KvLayer& kv = program.kv_layers[i];
    const CacheBytes of_layer = cache_bytes(kv, rows_[i].rows, config);
    Cache layer = {nullptr,
                   nullptr,
                   config.k_type == core::KvType::f16,
                   config.v_type == core::KvType::f16,
                   static_cast<int>(kv.heads),
                   static_cast<int>(kv.k_dim),
                   static_cast<int>(kv.v_dim),
                   rows_[i].rows};
    layer.ring = rows_[i].is_ring();
    const int64_t rows = config.streams * kv.heads * layer.rows;
    layer.k = at;
    if (config.k_type == core::KvType::q8_0) layer.k_scales = reinterpret_cast<uint16_t*>(at + rows * kv.k_dim);
    at += of_layer.keys;
    layer.v = at;
    if (config.v_type == core::KvType::q8_0) layer.v_scales = reinterpret_cast<uint16_t*>(at + rows * kv.v_dim);
    at += of_layer.values;
    layers_.push_back(layer);
    latent_.push_back(kv.latent);
  }
}

// visit(data, bytes of a row) for what a layer has: keys and values, and their scales.
template <typename Visit>
void KvCache::for_arrays(size_t index, Visit visit) const {
  const Cache& layer = layers_[index];
  const auto visit_some = [&](void* data, int64_t row_bytes) {
    if (data && row_bytes > 0) visit(static_cast<uint8_t*>(data), row_bytes);
  };
  const auto element_bytes = [](const uint16_t* scales, bool half) { return scales ? 1 : half ? 2 : 4; };
  visit_some(layer.k, layer.k_dim * element_bytes(layer.k_scales, layer.k_half));
  visit_some(layer.k_scales, layer.k_dim / core::kQ8Block * sizeof(uint16_t));
  if (latent_[index]) return;
  visit_some(layer.v, layer.v_dim * element_bytes(layer.v_scales, layer.v_half));
  visit_some(layer.v_scales, layer.v_dim / core::kQ8Block * sizeof(uint16_t));
}

void KvCache::copy(int32_t from, int32_t to, int64_t positions, cudaStream_t stream) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Cache& layer = layers_[i];
    const int64_t rows = layer.ring ? layer.rows : positions;
    for_arrays(i, [&](uint8_t* at, int64_t row_bytes) {
      const int64_t pitch = layer.rows * row_bytes;
      RIDGE_CUDA(cudaMemcpy2DAsync(at + to * layer.heads * pitch, pitch, at + from * layer.heads * pitch, pitch,
                                   rows * row_bytes, layer.heads, cudaMemcpyDeviceToDevice, stream));
    });
  }
}

int64_t KvCache::window_floats() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < layers_.size(); ++i)
    if (layers_[i].ring)
      for_arrays(i, [&](const uint8_t*, int64_t row_bytes) {
        bytes += padded(layers_[i].heads * rows_[i].window * row_bytes);
      });
  return bytes / static_cast<int64_t>(sizeof(float));
}

// copy(cache, its pitch, saved, its pitch, bytes of a head, heads) for each piece of what windows see from `position`
// on: as many rows as a window has, in one piece or, where the ring begins anew, two.
template <typename Byte, typename Copy>
void KvCache::for_windows(int32_t stream, int64_t position, Byte* saved, Copy copy) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Cache& layer = layers_[i];
    if (!layer.ring) continue;
    const int64_t window = rows_[i].window, row = rows_[i].row_of(rows_[i].first_seen(position));
    const int64_t first = std::min(window, layer.rows - row), rest = window - first;
    for_arrays(i, [&](uint8_t* at, int64_t row_bytes) {
      const int64_t pitch = layer.rows * row_bytes, saved_pitch = window * row_bytes;
      uint8_t* heads = at + stream * layer.heads * pitch;
      copy(heads + row * row_bytes, pitch, saved, saved_pitch, first * row_bytes, layer.heads);
      if (rest > 0) copy(heads, pitch, saved + first * row_bytes, saved_pitch, rest * row_bytes, layer.heads);
      saved += padded(layer.heads * saved_pitch);
    });
  }
}

void KvCache::save_windows(int32_t stream, int64_t position, std::span<float> to, cudaStream_t cuda_stream) const {
  for_windows(
      stream, position, std::as_writable_bytes(to).data(),
      [&](const uint8_t* cache, int64_t pitch, std::byte* saved, int64_t saved_pitch, int64_t bytes, int64_t heads) {
        RIDGE_CUDA(
            cudaMemcpy2DAsync(saved, saved_pitch, cache, pitch, bytes, heads, cudaMemcpyDeviceToHost, cuda_stream));
      });
}

void KvCache::load_windows(int32_t stream, int64_t position, std::span<const float> from,
                           cudaStream_t cuda_stream) const {
  for_windows(
      stream, position, std::as_bytes(from).data(),
      [&](uint8_t* cache, int64_t pitch, const std::byte* saved, int64_t saved_pitch, int64_t bytes, int64_t heads) {
        RIDGE_CUDA(
            cudaMemcpy2DAsync(cache, pitch, saved, saved_pitch, bytes, heads, cudaMemcpyHostToDevice, cuda_stream));
      });
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
