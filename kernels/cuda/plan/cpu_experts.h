// Layers whose missing experts the CPU can compute in small steps, and how many of them it should.
#pragma once

#include "core/host_experts.h"
#include "kernels/cuda/plan/expert_groups.h"
#include "kernels/cuda/plan/plan.h"

#include <array>
#include <optional>
#include <span>
#include <vector>

namespace ridge::kernels::cuda {

// `out` has the layer's products by slot, which experts of the CPU replace.
struct CpuExpertLayer {
  core::ValueId ids, x, out;
  core::ExpertLayer layer;
};

// Those of down (glu(gate y, up y)); nothing for Programs with adapters.
std::vector<CpuExpertLayer> cpu_expert_layers(const core::Program& program, const Plan& plan,
                                              std::span<const ExpertGroup> groups);

// Microseconds: `first` and `each` of the CPU's experts, `copy` of an expert to the GPU.
struct ExpertTimes {
  double first = 0, each = 0, copy = 0;
  double on_cpu(int experts) const { return experts == 0 ? 0 : first + (experts - 1) * each; }
};

// By the number of missing experts, how many the CPU computes, so that both are done soonest.
using CpuShare = std::array<uint8_t, core::kMostMailedExperts + 1>;
CpuShare share_of_cpu(const ExpertTimes& times);

struct CpuExpertOptions {
  core::MakeHostExperts make;    // null: the CPU computes no experts
  std::optional<CpuShare> share; // for tests; empty: by measured times
  double patience_seconds = 10;  // after which steps fail
};

} // namespace ridge::kernels::cuda
