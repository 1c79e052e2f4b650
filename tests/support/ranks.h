// A Program shared out to ranks, for tests of several executors.
#pragma once

#include "core/parallel/shard.h"
#include "quant/registry.h"

#include <vector>

namespace ridge::tests {

inline int64_t block_weights(uint32_t type) { return quant::find_format(type)->block_weights; }

inline std::vector<core::Shard> shards_of(const core::Program& program, int ranks) {
  std::vector<core::Shard> shards;
  for (int rank = 0; rank < ranks; ++rank) shards.push_back(core::shard_program(program, rank, ranks, block_weights));
  return shards;
}

} // namespace ridge::tests
