// Routers that the preceding output projection can compute (router/folded_router.h), and their memory.
#pragma once

#include "kernels/cuda/plan/plan.h"
#include "kernels/cuda/runtime/limits.h"

namespace ridge::core {
struct ExecutorConfig;
}

namespace ridge::kernels::cuda {

// Floats; 0: not folded.
struct FoldedSizes {
  int64_t experts = 0, cols = 0, width = 0; // of the projection; of the router
  int64_t constant = 0, gate = 0;

  int64_t matrix() const { return experts * (cols + width); }
  int64_t bytes() const { return 4 * (matrix() + constant + gate); }
};
FoldedSizes folded_sizes(const core::Program& program, const Plan& plan, size_t step);

// False without dataflow sync.
bool folds_routers(const core::ExecutorConfig& config, const DeviceLimits& limits);
int64_t folded_bytes(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                     const DeviceLimits& limits);

} // namespace ridge::kernels::cuda
