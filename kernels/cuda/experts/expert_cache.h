// GPU slots for one layer's experts in host memory. All happens on the GPU inside a step: route chooses,
// launch_fetch_experts copies experts without a slot, products read wherever an expert lies. One graph thus serves any
// choice, and results do not depend on the cache.
//
// The coldest lose their slots (heat: expert_tiers.h). Other experts of a prompt go to spill places,
// shared by all layers, because products read GPU memory faster.
#pragma once

#include "kernels/cuda/plan/expert_groups.h"
#include "kernels/cuda/runtime/device.h"

#include <cstdint>

namespace ridge::kernels::cuda {

struct ExpertCacheArgs {
  const uint8_t* host; // [experts][block_bytes], page-locked
  uint8_t* cached;     // [slots][block_bytes]
  uint8_t* spill;      // [spill_places][block_bytes]
  int64_t block_bytes; // a multiple of 16
  int experts, slots, spill_places;

  int64_t* places;      // [experts]: byte offsets from `host`
  int32_t* slot_of;     // [experts]; -1: none
  int32_t* expert_in;   // [slots]; -1: none
  float* heat;          // [experts]: log2 of decayed uses (expert_tiers.h)
  uint32_t* steps;      // [multiprocessors]
  int32_t* copies;      // [experts]: to copy
  uint64_t* published;  // step and number of copies
  uint64_t* statistics; // [2]: experts found in slots, and not
};

// `heat` and `steps` must be zero.
void launch_clear_experts(const Launch&, const ExpertCacheArgs& args);

// Into the coldest slots, then spill places; products read the rest from host memory.
void launch_fetch_experts(const Launch&, const ExpertCacheArgs& args, const int32_t* ids, int count);

} // namespace ridge::kernels::cuda
