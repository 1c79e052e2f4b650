// Sizes of LoRA adapters in the form that products read (executor/packed_adapters.h).
#pragma once

#include "kernels/cuda/plan/plan.h"
#include "kernels/cuda/runtime/limits.h"

#include <cstdint>

namespace ridge::core {
struct ExecutorConfig;
}

namespace ridge::kernels::cuda {

// A product's; all are multiples of 16, so that bulk copies can move rows.
struct AdapterBytes {
  int64_t a, b, factors, adapters;         // AdapterArgs
  int64_t prompt_a = 0, prompt_values = 0; // PromptAdapter: A if a norm's weights are in the other; factors, limits
  int64_t all() const { return a + b + factors + adapters + prompt_a + prompt_values; }
};
AdapterBytes adapter_bytes(const core::Program& program, const MatrixStep& m, bool prompts);

// False without dataflow sync.
bool adapts_products(const core::ExecutorConfig& config, const DeviceLimits& limits);
// Also in prompt products (gemm/prompt_adapters.h).
bool adapts_prompts(const core::ExecutorConfig& config, const DeviceLimits& limits);

// All changes of an adapted plan. Null: 0.
int64_t packed_adapter_bytes(const core::Program& program, const Plan* adapted, bool prompts);

} // namespace ridge::kernels::cuda
