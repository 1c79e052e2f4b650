// Programs sharded over ranks.
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

inline double matrix_bytes(const core::Program& program) {
  double bytes = 0;
  for (const core::Op& op : program.ops)
    if (class_of(op.kind) == core::OpClass::matrix) bytes += core::op_cost(program, op, {}).weight_bytes;
  return bytes;
}

} // namespace ridge::tests
