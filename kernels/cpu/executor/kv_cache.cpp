#include "kernels/cpu/executor/kv_cache.h"

#include "core/error.h"

#include <algorithm>
#include <cstring>

namespace ridge::kernels::cpu {

static_assert(core::kRingTile % kPositionTile == 0);

KvCache::KvCache(const core::Program& program, const core::ExecutorConfig& config) {
  const std::vector<core::CacheRows> rows = core::cache_rows(program, config);
  for (size_t i = 0; i < rows.size(); ++i) {
    const core::KvLayer& kv = program.kv_layers[i];
    const int64_t positions = round_up(rows[i].rows, kPositionTile);
    const double elements = static_cast<double>(config.streams) * static_cast<double>(kv.heads) *
                            static_cast<double>(positions) * static_cast<double>(kv.k_dim + kv.v_dim + 16);
    if (elements > 0x1p44)
      throw_error("the KV cache of {} streams of {} tokens is too large; lower -c", config.streams, config.context);
    Layer layer = {kv.heads,
                   positions,
                   kv,
                   core::block_positions(program) / kv.span,
                   positions * core::head_bytes(config.k_type, kv.k_dim),
                   kv.latent ? 0 : positions * core::head_bytes(config.v_type, round_up(kv.v_dim, 16)),
                   rows[i],
                   {},
                   {}};
    layer.keys = Memory(config.streams * kv.heads * layer.key_bytes, "KV cache");
    if (!kv.latent) layer.values = Memory(config.streams * kv.heads * layer.value_bytes, "KV cache");
    layers_.push_back(std::move(layer));
  }
}

std::byte* KvCache::keys(int32_t layer, int64_t stream, int64_t head) const {
  const Layer& l = layers_[layer];
  return l.keys.data() + (stream * l.heads + head) * l.key_bytes;
}

std::byte* KvCache::values(int32_t layer, int64_t stream, int64_t head) const {
  const Layer& l = layers_[layer];
  return l.values.data() + (stream * l.heads + head) * l.value_bytes;
}

void KvCache::copy(int64_t from, int64_t to, int64_t positions) const {
  for (const Layer& layer : layers_) {
    const int64_t tiled = layer.rows.is_ring() ? layer.positions : round_up(layer.kv.entries(positions), kPositionTile);
    const auto copy_of = [&](const Memory& memory, int64_t head_bytes) {
      for (int64_t head = 0; head < layer.heads && memory.bytes() > 0; ++head)
        std::memcpy(memory.data() + (to * layer.heads + head) * head_bytes,
                    memory.data() + (from * layer.heads + head) * head_bytes, head_bytes / layer.positions * tiled);
    };
    copy_of(layer.keys, layer.key_bytes);
    copy_of(layer.values, layer.value_bytes);
  }
}

int64_t KvCache::block_bytes() const {
  int64_t sum = 0;
  for (const Layer& layer : layers_)
    if (!layer.rows.is_ring())
      sum += layer.heads * layer.block_entries * (layer.key_bytes + layer.value_bytes) / layer.positions;
  return sum;
}

// Calls copy(cache, offset in the block, bytes) per head. The last block may be shorter.
template <typename Copy>
void KvCache::for_block(int64_t stream, int64_t block, Copy copy) const {
  int64_t at = 0;
  for (const Layer& layer : layers_) {
    if (layer.rows.is_ring()) continue;
    const int64_t first = block * layer.block_entries, count = std::min(layer.block_entries, layer.positions - first);
    const auto copy_heads = [&](const Memory& memory, int64_t head_bytes) {
      if (memory.bytes() == 0) return;
      const int64_t entry_bytes = head_bytes / layer.positions;
      for (int64_t head = 0; head < layer.heads; ++head, at += layer.block_entries * entry_bytes)
        copy(memory.data() + (stream * layer.heads + head) * head_bytes + first * entry_bytes, at, count * entry_bytes);
    };
    copy_heads(layer.keys, layer.key_bytes);
    copy_heads(layer.values, layer.value_bytes);
  }
}

void KvCache::save(int64_t stream, int64_t block, std::byte* to) const {
  for_block(stream, block,
            [to](const std::byte* cache, int64_t at, int64_t bytes) { std::memcpy(to + at, cache, bytes); });
}

void KvCache::load(int64_t stream, int64_t block, const std::byte* from) const {
  for_block(stream, block,
            [from](std::byte* cache, int64_t at, int64_t bytes) { std::memcpy(cache, from + at, bytes); });
}

int64_t KvCache::bytes() const {
  int64_t sum = 0;
  for (const Layer& layer : layers_) sum += layer.keys.bytes() + layer.values.bytes();
  return sum;
}

int64_t KvCache::window_tiles(const Layer& layer) {
  return std::min(round_up(layer.rows.window, kPositionTile) / kPositionTile + 1, layer.positions / kPositionTile);
}

int64_t KvCache::window_floats() const {
  int64_t bytes = 0;
  for (const Layer& layer : layers_)
    if (layer.rows.is_ring())
      bytes +=
          layer.heads * (layer.key_bytes + layer.value_bytes) / layer.positions * kPositionTile * window_tiles(layer);
  return bytes / static_cast<int64_t>(sizeof(float));
}

// Calls copy(tile, bytes) for window_tiles() tiles before `position`; the last may lie outside the window.
template <typename Copy>
void KvCache::for_window_tiles(int64_t stream, int64_t position, Copy copy) const {
  for (const Layer& layer : layers_) {
    if (!layer.rows.is_ring()) continue;
    const int64_t tiles = layer.positions / kPositionTile, first = layer.rows.first_seen(position) / kPositionTile;
    for (const auto& [memory, head_bytes] :
         {std::pair(&layer.keys, layer.key_bytes), std::pair(&layer.values, layer.value_bytes)})
      for (int64_t head = 0; head < layer.heads && head_bytes > 0; ++head)
        for (int64_t i = first; i < first + window_tiles(layer); ++i)
          copy(memory->data() + (stream * layer.heads + head) * head_bytes + i % tiles * (head_bytes / tiles),
               static_cast<size_t>(head_bytes / tiles));
  }
}

void KvCache::save_windows(int64_t stream, int64_t position, std::span<float> to) const {
  for_window_tiles(stream, position,
                   [at = std::as_writable_bytes(to).data()](const std::byte* tile, size_t bytes) mutable {
                     std::memcpy(at, tile, bytes);
                     at += bytes;
                   });
}

void KvCache::load_windows(int64_t stream, int64_t position, std::span<const float> from) const {
  for_window_tiles(stream, position, [at = std::as_bytes(from).data()](std::byte* tile, size_t bytes) mutable {
    std::memcpy(tile, at, bytes);
    at += bytes;
  });
}

} // namespace ridge::kernels::cpu
