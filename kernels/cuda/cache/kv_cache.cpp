#include "kernels/cuda/cache/kv_cache.h"

#include "kernels/cuda/plan/memory_plan.h"

#include <algorithm>
#include <utility>

namespace ridge::kernels::cuda {
namespace {

int64_t saved_bytes(int64_t bytes) { return (bytes + 15) / 16 * 16; }

} // namespace

KvCache::KvCache(const core::Program& program, const core::ExecutorConfig& config, cudaStream_t stream)
    : block_positions_(core::block_positions(program)) {
  const std::vector<core::CacheRows> rows = core::cache_rows(program, config);
  size_t bytes = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const CacheBytes of_layer = cache_bytes(program.kv_layers[i], rows[i].rows, config);
    bytes += of_layer.keys + of_layer.values;
  }
  memory_ = DeviceMemory(bytes, "the KV cache");
  RIDGE_CUDA(cudaMemsetAsync(memory_.as(), 0, bytes, stream));
  uint8_t* at = memory_.as();
  for (size_t i = 0; i < rows.size(); ++i) {
    const core::KvLayer& kv = program.kv_layers[i];
    const CacheBytes of_layer = cache_bytes(kv, rows[i].rows, config);
    Cache layer = {nullptr,
                   nullptr,
                   config.k_type == core::KvType::f16,
                   config.v_type == core::KvType::f16,
                   static_cast<int>(kv.heads),
                   static_cast<int>(kv.k_dim),
                   static_cast<int>(kv.v_dim),
                   rows[i].rows};
    layer.streams = static_cast<int>(config.streams);
    layer.ring = rows[i].is_ring();
    const int64_t all_rows = config.streams * kv.heads * layer.rows;
    layer.k_type = config.k_type, layer.v_type = config.v_type;
    layer.k = at;
    layer.k_blocks = add_rows(at, all_rows, config.k_type, kv.k_dim, kv, rows[i]);
    at += of_layer.keys;
    layer.v = at;
    if (!kv.latent) // else values are parts of keys
      layer.v_blocks = add_rows(at, all_rows, config.v_type, kv.v_dim, kv, rows[i]);
    at += of_layer.values;
    layers_.push_back(layer);
  }
}

CachedBlocks KvCache::add_rows(uint8_t* at, int64_t all_rows, core::KvType type, int64_t dim, const core::KvLayer& kv,
                               const core::CacheRows& rows) {
  const core::KvFormat& format = core::format_of(type);
  const auto add = [&](int64_t row_bytes) {
    add_part(at, row_bytes, kv, rows);
    return std::exchange(at, at + all_rows * row_bytes);
  };
  const int64_t halves_bytes = dim / core::kKvBlock * static_cast<int64_t>(sizeof(uint16_t));
  CachedBlocks blocks;
  add(dim * (format.bits == 5 ? 4 : format.bits) / 8);
  if (format.halves > 0) blocks.scales = reinterpret_cast<uint16_t*>(add(halves_bytes));
  if (format.halves > 1) blocks.minima = reinterpret_cast<uint16_t*>(add(halves_bytes));
  if (format.bits == 5) blocks.high_bits = add(dim / 8);
  return blocks;
}

void KvCache::add_part(void* data, int64_t row_bytes, const core::KvLayer& kv, const core::CacheRows& rows) {
  if (!data || row_bytes == 0) return;
  parts_.push_back({static_cast<uint8_t*>(data), kv.heads, row_bytes, kv.span, rows});
  if (rows.is_ring()) return;
  const int64_t bytes = parts_.back().head_bytes(), width = block_positions_ / kv.span * row_bytes;
  for (int64_t head = 0; head < kv.heads; ++head, block_bytes_ += width)
    heads_.push_back({parts_.back().data + head * bytes, kv.heads * bytes, bytes, width, block_bytes_});
}

void KvCache::copy(int32_t from, int32_t to, int64_t positions, cudaStream_t stream) const {
  for (const Part& part : parts_) {
    const int64_t pitch = part.head_bytes(),
                  rows = part.rows.is_ring() ? part.rows.rows : (positions + part.span - 1) / part.span;
    RIDGE_CUDA(cudaMemcpy2DAsync(part.data + to * part.heads * pitch, pitch, part.data + from * part.heads * pitch,
                                 pitch, rows * part.row_bytes, part.heads, cudaMemcpyDeviceToDevice, stream));
  }
}

int64_t KvCache::take_staging(int64_t blocks, cudaStream_t stream) {
  constexpr int64_t kMaxBytes = 32 << 20; // within the executors' reserve (memory_plan.h)
  constexpr int64_t kMaxBlocks = 65535;
  const int64_t most = std::clamp<int64_t>(kMaxBytes / block_bytes_, 1, kMaxBlocks);
  if (!staging_.bytes()) {
    staging_ = DeviceMemory(most * block_bytes_, "copies of the KV cache");
    const size_t bytes = heads_.size() * sizeof(CachedHead);
    device_heads_ = DeviceMemory(bytes, "copies of the KV cache");
    RIDGE_CUDA(cudaMemcpyAsync(device_heads_.as(), heads_.data(), bytes, cudaMemcpyHostToDevice, stream));
  }
  return std::min(most, blocks);
}

void KvCache::stage(int32_t of, int64_t first, int64_t count, bool save, const Launch& launch) const {
  launch_block_copy(launch, {device_heads_.as<const CachedHead>(), std::ssize(heads_), staging_.as(), block_bytes_, of,
                             first, count, save});
}

void KvCache::save(int32_t of, int64_t first, std::span<std::byte* const> blocks, const Launch& launch) {
  if (block_bytes_ == 0) return;
  while (!blocks.empty()) {
    const int64_t count = take_staging(std::ssize(blocks), launch.stream);
    stage(of, first, count, true, launch);
    for (int64_t i = 0; i < count; ++i)
      RIDGE_CUDA(cudaMemcpyAsync(blocks[i], staging_.as() + i * block_bytes_, block_bytes_, cudaMemcpyDeviceToHost,
                                 launch.stream));
    blocks = blocks.subspan(count);
    first += count;
  }
}

void KvCache::load(int32_t to, int64_t first, std::span<const std::byte* const> blocks, const Launch& launch) {
  if (block_bytes_ == 0) return;
  while (!blocks.empty()) {
    const int64_t count = take_staging(std::ssize(blocks), launch.stream);
    for (int64_t i = 0; i < count; ++i)
      RIDGE_CUDA(cudaMemcpyAsync(staging_.as() + i * block_bytes_, blocks[i], block_bytes_, cudaMemcpyHostToDevice,
                                 launch.stream));
    stage(to, first, count, false, launch);
    blocks = blocks.subspan(count);
    first += count;
  }
}

int64_t KvCache::window_floats() const {
  int64_t bytes = 0;
  for (const Part& part : parts_) bytes += saved_bytes(part.rows.window * part.heads * part.row_bytes);
  return bytes / static_cast<int64_t>(sizeof(float));
}

// copy(cache, pitch, saved, pitch, bytes per head, heads), per piece; two where a ring buffer wraps.
template <typename Byte, typename Copy>
void KvCache::for_windows(int32_t of, int64_t position, Byte* saved, Copy copy) const {
  for (const Part& part : parts_) {
    if (!part.rows.is_ring()) continue;
    const int64_t window = part.rows.window, row = part.rows.row_of(part.rows.first_seen(position));
    const int64_t first = std::min(window, part.rows.rows - row) * part.row_bytes;
    const int64_t pitch = part.head_bytes(), saved_pitch = window * part.row_bytes;
    uint8_t* heads = part.data + of * part.heads * pitch;
    copy(heads + row * part.row_bytes, pitch, saved, saved_pitch, first, part.heads);
    if (first < saved_pitch) copy(heads, pitch, saved + first, saved_pitch, saved_pitch - first, part.heads);
    saved += saved_bytes(part.heads * saved_pitch);
  }
}

void KvCache::save_windows(int32_t of, int64_t position, std::span<float> saved, cudaStream_t stream) const {
  for_windows(of, position, std::as_writable_bytes(saved).data(),
              [&](const uint8_t* cache, int64_t pitch, std::byte* to, int64_t to_pitch, int64_t bytes, int64_t heads) {
                RIDGE_CUDA(cudaMemcpy2DAsync(to, to_pitch, cache, pitch, bytes, heads, cudaMemcpyDeviceToHost, stream));
              });
}

void KvCache::load_windows(int32_t to, int64_t position, std::span<const float> saved, cudaStream_t stream) const {
  for_windows(
      to, position, std::as_bytes(saved).data(),
      [&](uint8_t* cache, int64_t pitch, const std::byte* from, int64_t from_pitch, int64_t bytes, int64_t heads) {
        RIDGE_CUDA(cudaMemcpy2DAsync(cache, pitch, from, from_pitch, bytes, heads, cudaMemcpyHostToDevice, stream));
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

void StateMemory::restore_mark(cudaStream_t cuda_stream) const {
  for_layers(marked_, mark_.as<float>(), [&](float* layer, const float* in, size_t bytes) {
    RIDGE_CUDA(cudaMemcpyAsync(layer, in, bytes, cudaMemcpyDeviceToDevice, cuda_stream));
  });
}

} // namespace ridge::kernels::cuda
