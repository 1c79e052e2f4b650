// Experts in the host's memory: where their weights are, and the slots for them on the GPU (expert_cache.h). Where the
// host has no room for all, some stay in the file, and steps need the host (filed_experts.h).
#pragma once

#include "core/executor.h"
#include "kernels/cuda/experts/expert_cache.h"
#include "kernels/cuda/experts/filed_experts.h"
#include "kernels/cuda/plan/expert_groups.h"

#include <memory>
#include <vector>

namespace ridge::kernels::cuda {

class ExpertStore {
 public:
  // With `groups` empty, a store of nothing. Takes page-locked memory for all of their experts unless `planned_only`;
  // for fewer where that would be more than `host_limit` bytes (below 0: no limit) or the host has less.
  ExpertStore(const core::Program& program, std::vector<ExpertGroup> groups, double host_limit, bool planned_only,
              int sm_count);

  bool empty() const { return groups_.empty(); }
  // Some experts stay in the file: behind each route of a step, serve() puts them where products read them.
  bool filed() const { return filed_ != nullptr; }

  // Takes the tables, and as many slots as have room in `bytes` of the GPU's memory, the same number for each layer, at
  // most `most` if that is not negative. Returns false where there is no room at all.
  bool take_slots(int64_t bytes, int64_t most, const Launch& launch);
  int64_t least_bytes() const { return groups_.empty() ? 0 : sizes_.gpu_bytes(0, host_places_); } // take_slots' need
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
  const int64_t* places(core::ValueId ids) const;

  // Of `count` ids on the GPU, which `route` chose (filed_experts.h). Nothing where these experts are not here.
  void serve(core::ValueId ids, const int32_t* chosen, int64_t count, const Launch& launch) {
    if (const int64_t g = group_of(ids); g >= 0) filed_->serve(g, chosen, count, launch);
  }

 private:
  int64_t group_of(core::ValueId ids) const; // -1: none
  void make_tables(int64_t slots, const Launch& launch);

  std::vector<ExpertGroup> groups_;
  ExpertSizes sizes_;
  int64_t host_places_; // of each layer
  int64_t table_bytes_;
  std::vector<PinnedMemory> host_; // by group; empty where planned only, or filed
  std::unique_ptr<FiledExperts> filed_;
  DeviceMemory slots_, spill_, tables_;
  std::vector<ExpertCacheArgs> args_; // by group
};

} // namespace ridge::kernels::cuda
