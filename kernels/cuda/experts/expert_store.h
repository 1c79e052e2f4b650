// Experts in host memory and their GPU slots (expert_cache.h). Those beyond host memory stay in the file, and steps
// then need the host (filed_experts.h).
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
  // Takes page-locked memory for all experts unless `planned_only`, or for fewer beyond `host_limit` bytes (< 0: none)
  // or the host's memory. `groups` may be empty.
  ExpertStore(const core::Program& program, std::vector<ExpertGroup> groups, double host_limit, bool planned_only,
              int sm_count);

  bool empty() const { return groups_.empty(); }
  // serve() must follow each route.
  bool filed() const { return filed_ != nullptr; }

  // As many slots as fit `bytes`, equally many per layer, at most `most` if >= 0. False if nothing fits.
  bool take_slots(int64_t bytes, int64_t most, const Launch& launch);
  int64_t least_bytes() const { return groups_.empty() ? 0 : sizes_.gpu_bytes(0, host_places_); }
  int64_t table_bytes() const { return table_bytes_; }
  core::ExpertUse use() const; // waits for the device
  std::span<const ExpertGroup> groups() const { return groups_; }

  // The first expert's matrix, and bytes to the next; null for other weights.
  struct Place {
    uint8_t* data = nullptr;
    int64_t stride = 0;
  };
  Place place(core::WeightId id) const;

  // The CPU takes part in a layer's steps. There must be slots.
  void ask_cpu(core::ValueId ids, const CpuExpertArgs& cpu);
  bool has_slots() const { return !args_.empty() && args_[0].slots > 0; }
  double measure_copy(const Launch& launch) const; // seconds for an expert of the first layer

  // Null if these experts are not here.
  const ExpertCacheArgs* of_ids(core::ValueId ids) const;
  const int64_t* places(core::ValueId ids) const;

  // `count` ids on the GPU (filed_experts.h).
  void serve(core::ValueId ids, const int32_t* chosen, int64_t count, const Launch& launch) {
    if (const int64_t g = group_of(ids); g >= 0) filed_->serve(g, chosen, count, launch);
  }

 private:
  int64_t group_of(core::ValueId ids) const;
  void make_tables(int64_t slots, const Launch& launch);

  std::vector<ExpertGroup> groups_;
  ExpertSizes sizes_;
  int64_t host_places_;
  int64_t table_bytes_;
  std::vector<PinnedMemory> host_; // empty if planned only or filed
  std::unique_ptr<FiledExperts> filed_;
  DeviceMemory slots_, spill_, tables_;
  std::vector<ExpertCacheArgs> args_;
};

} // namespace ridge::kernels::cuda
