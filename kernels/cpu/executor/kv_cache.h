// Keys and values in the layout of kernels.h.
#pragma once

#include "core/rings.h"
#include "kernels/cpu/executor/memory.h"
#include "kernels/cpu/formats/kernels.h"

#include <vector>

namespace ridge::kernels::cpu {

class KvCache {
 public:
  KvCache(const core::Program& program, const core::ExecutorConfig& config);

  std::byte* keys(int32_t layer, int64_t stream, int64_t head) const;
  std::byte* values(int32_t layer, int64_t stream, int64_t head) const;
  const core::CacheRows& rows(int32_t layer) const { return layers_[layer].rows; }
  // The first `positions` of each head, and whole rings.
  void copy(int64_t from, int64_t to, int64_t positions) const;
  // A block (core::Executor) has keys, then values per layer, head by head, without rings.
  int64_t block_bytes() const;
  void save(int64_t stream, int64_t block, std::byte* to) const;
  void load(int64_t stream, int64_t block, const std::byte* from) const;
  int64_t bytes() const;

  // Ring contents visible from `position`.
  int64_t window_floats() const;
  void save_windows(int64_t stream, int64_t position, std::span<float> to) const;
  void load_windows(int64_t stream, int64_t position, std::span<const float> from) const;

 private:
  template <typename Copy>
  void for_block(int64_t stream, int64_t block, Copy copy) const;

  struct Layer {
    int64_t heads, positions; // positions: entries, in whole tiles
    core::KvLayer kv;
    int64_t block_entries;
    int64_t key_bytes, value_bytes; // per head and stream
    core::CacheRows rows;
    Memory keys, values; // [stream][head]
  };
  static int64_t window_tiles(const Layer& layer);
  template <typename Copy>
  void for_window_tiles(int64_t stream, int64_t position, Copy copy) const;

  std::vector<Layer> layers_;
};

} // namespace ridge::kernels::cpu
