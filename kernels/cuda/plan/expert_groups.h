// Routed experts' weights, which may stay in host memory.
#pragma once

#include "core/host_device/round_up.h"
#include "core/program.h"

#include <cstdint>
#include <vector>

namespace ridge::kernels::cuda {

// The experts of one route op; an expert's matrices form a block.
struct ExpertGroup {
  core::ValueId ids;
  int64_t experts = 0;
  std::vector<core::WeightId> weights;
  std::vector<int64_t> offsets;
  int64_t block_bytes = 0;
  int64_t file_bytes = 0; // each matrix padded to kExpertAligned
};

inline constexpr int64_t kExpertAligned = 256;
constexpr int64_t expert_aligned(int64_t bytes) { return core::round_up(bytes, kExpertAligned); }

bool chooses_experts(const core::Program& program);

// Bytes of min(slots, experts) slots per layer.
int64_t slot_bytes(const std::vector<ExpertGroup>& groups, int64_t slots);

inline constexpr int64_t kMovedAtOnce = 4; // experts that leave the GPU while others arrive
inline constexpr double kUsesHalfLife = 100;

// Bytes of the tables in experts/expert_cache.h.
int64_t expert_table_bytes(const std::vector<ExpertGroup>& groups, int sm_count);

// Omits weights with several users.
std::vector<ExpertGroup> expert_groups(const core::Program& program);

// Every layer has the same number of places.
struct ExpertSizes {
  int64_t experts = 0; // of the largest layer
  int64_t all_bytes = 0;
  int64_t copy_bytes = 0;                      // of one expert per layer
  int64_t largest_block = 0, largest_file = 0; // of one expert

  // Experts per layer; the others stay in the file.
  int64_t host_places(double host_bytes) const;
  // With spill places; if some experts are only in the file, also a read buffer and blocks for moves.
  int64_t gpu_bytes(int64_t copies, int64_t host_places) const;
  // Blocks of the largest layer's size for a step's experts without a copy: all that can lack a place if some are only
  // in the file, otherwise all within a quarter of the memory.
  int64_t spill_places(int64_t copies, int64_t host_places) const;
  // The most that fit; -1: not even zero.
  int64_t copies_in(int64_t gpu_bytes, int64_t host_places) const;
};
ExpertSizes expert_sizes(const std::vector<ExpertGroup>& groups);

} // namespace ridge::kernels::cuda
