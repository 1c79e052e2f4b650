#pragma once

#include "core/executor.h"
#include "kernels/cuda/executor/device_weights.h"
#include "kernels/cuda/plan/plan.h"
#include "kernels/cuda/router/folded_router.h"
#include "kernels/cuda/runtime/device.h"

#include <vector>

namespace ridge::kernels::cuda {

class FoldedRouters {
 public:
  // Throws OutOfMemory.
  FoldedRouters(const core::Program& program, const core::ExecutorConfig& config, const Plan& plan,
                const DeviceLimits& limits);

  // Call after the weights' upload. Waits for the end.
  void make(const core::Program& program, const Plan& plan, const DeviceWeights& weights, const Launch& launch) const;

  bool empty() const { return routers_.empty(); }
  int64_t bytes() const { return static_cast<int64_t>(memory_.bytes()); }
  const FoldedRouter& operator[](size_t step) const { return routers_[step]; }

 private:
  DeviceMemory memory_;
  std::vector<FoldedRouter> routers_; // by step, or empty
};

} // namespace ridge::kernels::cuda
