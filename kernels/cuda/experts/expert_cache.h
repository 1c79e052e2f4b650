// GPU slots for one layer's experts in host memory. All happens on the GPU inside a step: route chooses,
// launch_fetch_experts copies experts without a slot, products read wherever an expert lies. One graph thus serves any
// choice, and results do not depend on the cache.
//
// The coldest lose their slots (heat: expert_tiers.h). Other experts of a prompt go to spill places,
// shared by all layers, because products read GPU memory faster.
//
// In small steps the CPU may compute the coldest missing experts (core/host_experts.h), unless each is used twice as
// often as the expert that would lose its slot. Products then compute something else in their place, and
// launch_receive_experts replaces it.
#pragma once

#include "core/host_experts.h"
#include "kernels/cuda/plan/expert_groups.h"
#include "kernels/cuda/runtime/device.h"

#include <cstdint>

namespace ridge::kernels::cuda {

struct CpuExpertArgs {
  core::ExpertMail* mail; // page-locked, as are x and results; null: the CPU computes nothing
  float* x;               // [rows][width], width a multiple of 4
  const float* results;   // [experts][width]
  int width;
  int layer;
  uint64_t patience_ns; // that the GPU waits for an answer

  // In device memory, shared by all layers.
  const uint8_t* share; // [missing experts + 1]: how many the CPU computes (CpuShare)
  int32_t* asked;       // number, then slots of the last message
  uint64_t* messages;   // sent
  uint32_t* failed;     // waited in vain: no more waiting
};

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

  CpuExpertArgs cpu = {};
};

// `heat` and `steps` must be zero.
void launch_clear_experts(const Launch&, const ExpertCacheArgs& args);

// Into the coldest slots, then spill places; products read the rest from host memory.
// With `x` [rows][cpu.width], the CPU may compute some of them.
void launch_fetch_experts(const Launch&, const ExpertCacheArgs& args, const int32_t* ids, int count,
                          const float* x = nullptr, int rows = 0);

// Waits for the CPU's experts and writes them to their slots' rows of `out`.
void launch_receive_experts(const Launch&, const CpuExpertArgs& args, float* out, int slots);

} // namespace ridge::kernels::cuda
