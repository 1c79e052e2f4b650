// The experts of one layer whose weights stay in the host's memory, and the slots on the GPU that keep copies of those
// that are used most. All of it happens on the GPU, inside a step: route chooses experts, launch_fetch_experts copies
// those that no slot has, and the products read wherever an expert lies. So a graph serves any choice, and what is
// computed does not depend on what is cached, to the bit.
//
// An expert's heat is the sum of its uses, where one of kUsesHalfLife steps ago counts half. The slots of the coldest
// are taken. A step may want more experts than there are slots, as prompts do: the rest is copied into spill places,
// which all layers share for the time of one layer, because products read the GPU's memory faster.
#pragma once

#include "kernels/cuda/plan/expert_groups.h"
#include "kernels/cuda/runtime/device.h"

#include <cstdint>

namespace ridge::kernels::cuda {

// An expert's matrices (gate, up, down) lie behind each other in a block, in the host's memory and in a slot alike.
struct ExpertCacheArgs {
  const uint8_t* host; // [experts][block_bytes], page-locked memory that the GPU reads
  uint8_t* cached;     // [slots][block_bytes]
  uint8_t* spill;      // [spill_places][block_bytes], of all layers
  int64_t block_bytes; // a multiple of 16
  int experts, slots, spill_places;

  int64_t* places;      // [experts]: where a block begins, in bytes behind `host`
  int32_t* slot_of;     // [experts]: -1: none
  int32_t* expert_in;   // [slots]: -1: none
  float* heat;          // [experts]: log2 of its uses, those of now counting 2 ^ (now / kUsesHalfLife)
  uint32_t* steps;      // [multiprocessors]: done so far, by block
  int32_t* copies;      // [experts]: experts that are to be copied
  uint64_t* published;  // [1]: the step, and how many those are
  uint64_t* statistics; // [2], of all layers: experts that were found in slots, and that were not
};

// Experts whose block is where `host` has it, no slot in use. `heat` and `steps` begin with zeros.
void launch_clear_experts(const Launch&, const ExpertCacheArgs& args);

// Copies the experts among `ids` [count] that no slot has: into the slots of the coldest experts, then, where a step
// wants more experts than there are slots, into spill places. What has no place even there, products read in the host's
// memory.
void launch_fetch_experts(const Launch&, const ExpertCacheArgs& args, const int32_t* ids, int count);

} // namespace ridge::kernels::cuda
