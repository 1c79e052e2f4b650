// A Program's GPU memory, without a GPU: exactly what an executor allocates, plus its reserve.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/plan/expert_groups.h"
#include "kernels/cuda/runtime/limits.h"

#include <cstdint>

namespace ridge::kernels::cuda {

struct CacheBytes {
  int64_t keys, values;
};
CacheBytes cache_bytes(const core::KvLayer& layer, int64_t rows, const core::ExecutorConfig& config);
int64_t state_floats(const core::StateLayer& layer, const core::ExecutorConfig& config);
// Places of tokens (TokenPlace), adapters, rows that replace embeddings.
inline constexpr int64_t kPlaceBytes = 32;
int64_t place_bytes(const core::Program& program, const core::ExecutorConfig& config);
int64_t adapter_use_bytes(const core::Program& program, const core::ExecutorConfig& config);
int64_t given_bytes(const core::Program& program, const core::ExecutorConfig& config);

// For kernels, graphs, upload, sampling, copies of caches and states: an upper bound, except kernels and graphs, which
// were measured (docs/cuda.md).
int64_t reserve_bytes(const core::Program& program, const core::ExecutorConfig& config);

// Vectors keep the layout of the file; matrices are packed.
bool keeps_layout(core::WeightRole role);
// One of the weight's matrices in the layout of layout/layout.cuh, which pads it to whole row blocks.
int64_t packed_bytes(const core::Weight& w);

struct MemoryPlan {
  int64_t weights = 0, cache = 0, state = 0, scratch = 0, reserve = 0;
  // Free bytes needed at an executor's start.
  int64_t total() const { return weights + cache + state + scratch + reserve; }

  ExpertSizes experts; // in host memory; `weights` excludes their copies
};
MemoryPlan plan_memory(const core::Program& program, const core::ExecutorConfig& config, const DeviceLimits& limits,
                       bool experts_on_host = false);

} // namespace ridge::kernels::cuda
