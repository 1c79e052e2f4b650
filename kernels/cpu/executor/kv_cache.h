// Keys and values of every layer and stream, in the layout that attention reads (kernels.h).
#pragma once

#include "core/executor.h"
#include "kernels/cpu/executor/memory.h"
#include "kernels/cpu/formats/kernels.h"

#include <vector>

namespace ridge::kernels::cpu {

class KvCache {
 public:
  KvCache(const core::Program& program, const core::ExecutorConfig& config);

  // Where a head's keys and values start.
  std::byte* keys(int32_t layer, int64_t stream, int64_t head) const;
  std::byte* values(int32_t layer, int64_t stream, int64_t head) const;
  // The first `positions` of each head, from one stream to another.
  void copy(int64_t from, int64_t to, int64_t positions) const;
  // Block number `block` of a stream (core::Executor): layer after layer its keys, then its values, head after head.
  int64_t block_bytes() const;
  void save(int64_t stream, int64_t block, std::byte* to) const;
  void load(int64_t stream, int64_t block, const std::byte* from) const;
  int64_t bytes() const;

 private:
  template <typename Copy>
  void for_block(int64_t stream, int64_t block, Copy copy) const;

  struct Layer {
    int64_t heads, positions; // positions: whole tiles of entries
    core::KvLayer kv;
    int64_t block_entries;
    int64_t key_bytes, value_bytes; // per head of one stream
    Memory keys, values;            // [stream][head]
  };
  std::vector<Layer> layers_;
};

} // namespace ridge::kernels::cpu
