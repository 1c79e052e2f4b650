// Sizes of LoRA adapters in the form that products read (executor/packed_adapters.h).
#pragma once

#include "kernels/cuda/plan/plan.h"
#include "kernels/cuda/runtime/limits.h"

#include <cstdint>

namespace ridge::core {
struct ExecutorConfig;
}

namespace ridge::kernels::cuda {

struct AdapterSizes {
  int64_t rank, padded_rank, cols, rows;

  // f16 rows of A, f16 rows of B, factors; multiples of 16 bytes, which one copy moves.
  int64_t a_bytes() const { return padded_rank * cols * 2; }
  int64_t b_bytes() const { return rows * padded_rank * 2; }
  int64_t factor_bytes() const { return padded_rank * 4; }
  int64_t bytes() const { return a_bytes() + b_bytes() + factor_bytes(); }
};
AdapterSizes adapter_sizes(const core::Program& program, const MatrixStep::Change& change);

// False without dataflow sync.
bool adapts_products(const core::ExecutorConfig& config, const DeviceLimits& limits);

// All changes of an adapted plan. Null: 0.
int64_t packed_adapter_bytes(const core::Program& program, const Plan* adapted);

} // namespace ridge::kernels::cuda
