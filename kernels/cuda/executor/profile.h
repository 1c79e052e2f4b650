// Times of a step's graph, whose kernels stamp when blocks start, wait and end.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/plan/batch_plan.h"
#include "kernels/cuda/runtime/device.h"

#include <nvtx3/nvToolsExt.h> // header-only: loads its library, where a profiler brings one, at the first range

#include <functional>
#include <string>
#include <vector>

namespace ridge::kernels::cuda {

// Average seconds per step. `log`: the graph's kernels and stamps, in `memory`.
std::vector<core::OpTime> profile_graph(const core::Program& program, const Plan& plan, const Graph& graph,
                                        const LaunchLog& log, const DeviceMemory& memory, cudaStream_t stream,
                                        int repetitions);

// Average seconds per call, launches included.
std::vector<core::OpTime> profile_calls(const core::Program& program, const Plan& plan, const BatchPlan& batch,
                                        cudaStream_t stream, int repetitions,
                                        const std::function<void(const KernelCall&)>& launch);

class ProfilerRange {
 public:
  explicit ProfilerRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
  ~ProfilerRange() { nvtxRangePop(); }
  ProfilerRange(const ProfilerRange&) = delete;
};

} // namespace ridge::kernels::cuda
