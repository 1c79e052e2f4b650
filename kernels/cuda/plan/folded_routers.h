// Routers that are multiplied by the output projection in front of them (router/folded_router.h): which of a plan's
// steps are, and how much memory that takes.
#pragma once

#include "kernels/cuda/plan/plan.h"
#include "kernels/cuda/runtime/limits.h"

namespace ridge::core {
struct ExecutorConfig;
}

namespace ridge::kernels::cuda {

// In floats of device memory; none where the step is no folded router.
struct FoldedSizes {
  int64_t experts = 0, cols = 0, width = 0; // cols: of the output projection; width: of the router's input
  int64_t constant = 0, gate = 0;

  int64_t matrix() const { return experts * (cols + width); }
  int64_t bytes() const { return 4 * (matrix() + constant + gate); }
};
FoldedSizes folded_sizes(const core::Program& program, const Plan& plan, size_t step);

// Whether any batch of this configuration can use them: they need dataflow sync.
bool folds_routers(const core::ExecutorConfig& config, const DeviceLimits& limits);
// Bytes for all steps; 0 where no batch can use them.
int64_t folded_bytes(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                     const DeviceLimits& limits);

} // namespace ridge::kernels::cuda
