// Which weights are routed experts': those may stay in the host's memory, because a token needs few of them.
#pragma once

#include "core/host_device/round_up.h"
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
  int64_t file_bytes = 0; // of an expert's matrices in the file, each at a multiple of kExpertAligned
};

inline constexpr int64_t kExpertAligned = 256;
constexpr int64_t expert_aligned(int64_t bytes) { return core::round_up(bytes, kExpertAligned); }

// Bytes of so many slots of each layer, or of as many as it has experts.
int64_t slot_bytes(const std::vector<ExpertGroup>& groups, int64_t slots);

inline constexpr int64_t kMovedAtOnce = 4;   // experts that leave the GPU while others come
inline constexpr double kUsesHalfLife = 100; // steps after which an expert's use counts half

// Bytes of the tables that say where experts are (experts/expert_cache.h), for a GPU of so many multiprocessors.
int64_t expert_table_bytes(const std::vector<ExpertGroup>& groups, int sm_count);

// Weights that other ops or groups use as well are left out.
std::vector<ExpertGroup> expert_groups(const core::Program& program);

// How much room experts take, and how many have room. Every layer has the same number of places.
struct ExpertSizes {
  int64_t experts = 0;                         // of a layer, at most
  int64_t all_bytes = 0;                       // of all experts, in the device layout
  int64_t copy_bytes = 0;                      // of one expert of each layer
  int64_t largest_block = 0, largest_file = 0; // of one expert of one layer, in the device layout and in the file

  // How many experts of each layer have room in so much of the host's memory. The others stay in the file.
  int64_t host_places(double host_bytes) const;
  // What so many copies of each layer's experts take on the GPU, with the spill places. Where some experts are in the
  // file alone, that includes a buffer for reading and blocks for moves.
  int64_t gpu_bytes(int64_t copies, int64_t host_places) const;
  // Blocks of the largest layer's size for a step's experts that have no copy. Where some experts are in the file
  // alone, as many as can be without any place. Else as many as can be without a copy, in at most a quarter of the
  // memory.
  int64_t spill_places(int64_t copies, int64_t host_places) const;
  // The most copies that have room in so many bytes of the GPU's memory; -1: not even none.
  int64_t copies_in(int64_t gpu_bytes, int64_t host_places) const;
};
ExpertSizes expert_sizes(const std::vector<ExpertGroup>& groups);

} // namespace ridge::kernels::cuda
