// Which weights are routed experts': those may stay in the host's memory, because a token needs few of them.
#pragma once

#include "core/program.h"

#include <cstdint>
#include <vector>

namespace ridge::kernels::cuda {

// The experts among which one route op chooses. An expert's matrices lie in a block, in this order.
struct ExpertGroup {
  core::ValueId ids; // what route chose
  int64_t experts = 0;
  std::vector<core::WeightId> weights;
  std::vector<int64_t> offsets; // of each weight's matrix in the block, in bytes
  int64_t block_bytes = 0;
};

// Of the tables that say where experts are (experts/expert_cache.h), for a GPU of so many multiprocessors.
int64_t expert_table_bytes(const std::vector<ExpertGroup>& groups, int sm_count);

// Weights that other ops or groups use as well are left out.
std::vector<ExpertGroup> expert_groups(const core::Program& program);

} // namespace ridge::kernels::cuda
