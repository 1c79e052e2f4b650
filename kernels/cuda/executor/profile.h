// Which ops of a Program a step of the plan computes, and ranges for Nsight.
#pragma once

#include "kernels/cuda/executor/plan.h"

#include <nvtx3/nvToolsExt.h> // header-only: loads its library, where a profiler brings one, at the first range

#include <string>
#include <vector>

namespace ridge::kernels::cuda {

// Per step, indices into Program::ops. Every op belongs to one step: the one that writes what it computes, or else the
// one that its result is used up in.
std::vector<std::vector<int32_t>> ops_of_steps(const core::Program& program, const Plan& plan);

// Per step "layer:ops".
std::vector<std::string> names_of_steps(const core::Program& program, const Plan& plan);

class ProfilerRange {
 public:
  explicit ProfilerRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
  ~ProfilerRange() { nvtxRangePop(); }
  ProfilerRange(const ProfilerRange&) = delete;
};

} // namespace ridge::kernels::cuda
