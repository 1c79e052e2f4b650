// Keys and values of every layer and stream, in the layout that attention reads (kernels.h).
#pragma once

#include "core/executor.h"
#include "kernels/cpu/executor/memory.h"
#include "kernels/cpu/formats/kernels.h"

#include <vector>

namespace ridge::kernels::cpu {

class KvCache {
 public:
  KvCache(const std::vector<core::KvLayer>& layers, const core::ExecutorConfig& config);

  // Where a head's keys and values start.
  std::byte* keys(int32_t layer, int64_t stream, int64_t head) const;
  std::byte* values(int32_t layer, int64_t stream, int64_t head) const;
  // The first `positions` of each head, from one stream to another.
  void copy(int64_t from, int64_t to, int64_t positions) const;
  int64_t bytes() const;

 private:
  struct Layer {
    int64_t heads, positions;       // positions: whole tiles of them
    int64_t key_bytes, value_bytes; // per head of one stream
    Memory keys, values;            // [stream][head]
  };
  std::vector<Layer> layers_;
};

} // namespace ridge::kernels::cpu
