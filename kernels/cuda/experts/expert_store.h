// Experts in the host's memory: where their weights are, and the slots for them on the GPU (expert_cache.h).
#pragma once

#include "core/executor.h"
#include "kernels/cuda/experts/expert_cache.h"
#include "kernels/cuda/plan/expert_groups.h"

#include <vector>

namespace ridge::kernels::cuda {

class ExpertStore {
 public:
  // With `groups` empty, a store of nothing. Takes page-locked memory for all of their experts unless `planned_only`.
  // Throws Error where the host has too little.
  ExpertStore(std::vector<ExpertGroup> groups, bool planned_only, int sm_count);

  bool empty() const { return groups_.empty(); }
  int64_t host_bytes() const;

  // Takes the tables, and as many slots as have room in `bytes` of the GPU's memory, the same number for each layer, at
  // most `most` if that is not negative.
  void take_slots(int64_t bytes, int64_t most, const Launch& launch);
  int64_t table_bytes() const { return table_bytes_; }
  core::ExpertUse use() const; // waits for the device

  // Where a weight's matrix of the first expert is, and how far the next expert's is from there. Null for others.
  struct Place {
    uint8_t* data = nullptr;
    int64_t stride = 0;
  };
  Place place(core::WeightId id) const;

  // Null where the experts chosen by these ids are not here.
  const ExpertCacheArgs* of_ids(core::ValueId ids) const;
  const int64_t* places(core::ValueId ids) const { return of_ids(ids) ? of_ids(ids)->places : nullptr; }

 private:
  std::vector<ExpertGroup> groups_;
  int64_t table_bytes_;
  std::vector<PinnedMemory> host_; // by group; empty where planned only
  DeviceMemory slots_, tables_;
  std::vector<ExpertCacheArgs> args_; // by group
};

} // namespace ridge::kernels::cuda
