// Experts of a model larger than host memory: on the GPU, in page-locked memory, or in the file (expert_tiers.h). The
// host waits for each `route` and moves experts that the GPU cannot read, so a step is no graph.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/experts/expert_reader.h"
#include "kernels/cuda/plan/expert_tiers.h"

#include <deque>
#include <optional>
#include <vector>

namespace ridge::kernels::cuda {

class FiledExperts {
 public:
  // Takes memory for the experts per layer that fit `host_bytes`, or fewer if the system has less; throws if none fit.
  // `groups` and `program` must outlive it.
  FiledExperts(const core::Program& program, const std::vector<ExpertGroup>& groups, int64_t host_bytes);

  int64_t host_places() const { return host_places_; }

  // `tables`: a number per expert and layer.
  void take_slots(int64_t slots, uint8_t* tables, const Launch& launch);

  // Byte offsets from `base` by expert, on the GPU.
  uint8_t* base(size_t group) const { return host_[group].as(); }
  const int64_t* places(size_t group) const { return layers_[group].device_places; }

  // Waits for the stream, including the `count` ids on the GPU. Work queued afterwards finds all of these experts.
  void serve(size_t group, const int32_t* ids, int64_t count, const Launch& launch);

  core::ExpertUse use() const { return use_; }

 private:
  struct Layer {
    ExpertTiers tiers;
    uint8_t *slots, *host;
    PinnedMemory places;
    int64_t* device_places;
    Event saved; // evicted expert is in host memory
  };
  uint8_t* address(const Layer& layer, const ExpertGroup& group, ExpertPlace place) const;
  void move(Layer& layer, const ExpertGroup& group, const ExpertMove& move, const Launch& launch);

  const core::Program& program_;
  const std::vector<ExpertGroup>& groups_;
  const ExpertSizes sizes_;
  int64_t host_places_;
  std::vector<PinnedMemory> host_;
  DeviceMemory slots_, spill_; // the blocks for moves, then spill places
  Stream saves_;               // copies to host memory
  struct MoveBuffer {
    Event filled, emptied;
  };
  MoveBuffer move_buffers_[kMovedAtOnce]; // the blocks for moves
  int64_t next_move_buffer_ = 0;
  std::optional<ExpertReader> reader_;
  std::deque<Layer> layers_;
  PinnedMemory ids_;
  core::ExpertUse use_;
};

} // namespace ridge::kernels::cuda
