// The experts of a model that has more of them than the host's memory has room for. Some lie on the GPU, some in
// page-locked host memory, and the others in the mapped file (expert_tiers.h decides which). For every layer with
// experts the host waits for `route`, reads what it chose, and moves what has no place that the GPU can read. So a step
// is no graph. Products read wherever an expert lies, as they do where all are in the host's memory, and results are
// the same to the bit.
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
  // Takes page-locked memory for as many experts of each layer as have room in `host_bytes`, or fewer where the system
  // has less. `groups` and `program` must outlive it.
  FiledExperts(const core::Program& program, const std::vector<ExpertGroup>& groups, int64_t host_bytes);

  int64_t host_places() const { return host_places_; } // of each layer

  // Takes `slots` slots of each layer and what else sizes.gpu_bytes() counts, and makes tables in `tables`, which has
  // room for a number by expert and layer.
  void take_slots(int64_t slots, uint8_t* tables, const Launch& launch);

  // Where the products' addresses of a group's experts begin, and the table of bytes behind that, by expert, on the
  // GPU.
  uint8_t* base(size_t group) const { return host_[group].as(); }
  const int64_t* places(size_t group) const { return layers_[group].device_places; }

  // Waits until what the stream has so far is done, among it the `count` numbers of experts at `ids` on the GPU. When
  // it returns, what the stream gets from now on finds all of these experts.
  void serve(size_t group, const int32_t* ids, int64_t count, const Launch& launch);

  core::ExpertUse use() const { return use_; }

 private:
  struct Layer {
    ExpertTiers tiers;
    uint8_t *slots, *host;
    PinnedMemory places; // by expert
    int64_t* device_places;
    Event saved; // what the last move took from the GPU is in the host's memory
  };
  uint8_t* address(const Layer& layer, const ExpertGroup& group, ExpertPlace place) const;
  void move(Layer& layer, const ExpertGroup& group, const ExpertMove& move, const Launch& launch);

  const core::Program& program_;
  const std::vector<ExpertGroup>& groups_;
  const ExpertSizes sizes_;
  int64_t host_places_;
  std::vector<PinnedMemory> host_; // by group
  DeviceMemory slots_, spill_;     // spill: the blocks for moves, then the places
  Stream saves_;                   // copies to the host's memory, while others come from there
  struct Aside {
    Event filled, emptied;
  };
  Aside aside_[kMovedAtOnce]; // the blocks for moves
  int64_t next_aside_ = 0;
  std::optional<ExpertReader> reader_;
  std::deque<Layer> layers_;
  PinnedMemory ids_;
  core::ExpertUse use_;
};

} // namespace ridge::kernels::cuda
