// A Program's GPU memory, without a GPU: exactly what an executor allocates, plus its reserve.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/plan/expert_groups.h"
#include "kernels/cuda/runtime/limits.h"
#include "quant/registry.h"

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
int64_t adapter_bytes(const core::Program& program, const core::ExecutorConfig& config);
int64_t given_bytes(const core::Program& program, const core::ExecutorConfig& config);

// For kernels, graphs, upload, sampling, copies of caches and states: an upper bound, except kernels and graphs, which
// were measured (docs/cuda.md).
int64_t reserve_bytes(const core::Program& program, const core::ExecutorConfig& config);

// Sizes in layout/layout.cuh; a test compares them.
struct LayoutBytes {
  int64_t row, row_block; // bytes; matrices are padded to row_block rows
  int64_t matrix(int64_t rows) const { return (rows + row_block - 1) / row_block * row_block * row; }
};
LayoutBytes layout_bytes(const quant::FormatInfo& format, int64_t cols);

struct MemoryPlan {
  int64_t weights = 0, cache = 0, state = 0, scratch = 0, reserve = 0;
  // Free bytes needed at an executor's start.
  int64_t total() const { return weights + cache + state + scratch + reserve; }

  ExpertSizes experts; // in host memory; `weights` excludes their copies
};
MemoryPlan plan_memory(const core::Program& program, const core::ExecutorConfig& config, const DeviceLimits& limits,
                       bool experts_on_host = false);

} // namespace ridge::kernels::cuda
