// How much of a GPU's memory a Program takes, computed on the host and without a GPU: to the byte what an executor
// allocates, because it allocates by the same functions, and what it leaves free for later.
#pragma once

#include "core/executor.h"
#include "kernels/cuda/plan/expert_groups.h"
#include "kernels/cuda/runtime/limits.h"
#include "quant/registry.h"

#include <cstdint>

namespace ridge::kernels::cuda {

// The caches of all streams, in bytes; `rows` of a stream's head (core::CacheRows).
struct CacheBytes {
  int64_t keys, values;
};
CacheBytes cache_bytes(const core::KvLayer& layer, int64_t rows, const core::ExecutorConfig& config);
int64_t state_floats(const core::StateLayer& layer, const core::ExecutorConfig& config);
// Bytes that a batch takes beside four numbers of each token: the places of tokens (TokenPlace), and the rows that
// replace embeddings.
inline constexpr int64_t kPlaceBytes = 32;
int64_t place_bytes(const core::Program& program, const core::ExecutorConfig& config);
int64_t adapter_bytes(const core::Program& program, const core::ExecutorConfig& config); // what counts of them
int64_t given_bytes(const core::Program& program, const core::ExecutorConfig& config);

// What an executor leaves free for what it does not allocate at once, or not by itself: kernels, graphs, buffers of the
// upload, sampling, copies of caches and states. At most so much, but for kernels and graphs, which are the driver's:
// what they took was measured (docs/cuda.md).
int64_t reserve_bytes(const core::Program& program, const core::ExecutorConfig& config);

// The device layout of a format (layout/layout.cuh), of which a test checks that it has these sizes.
struct LayoutBytes {
  int64_t row, row_block; // bytes of a row; rows to a multiple of which a matrix is padded
  int64_t matrix(int64_t rows) const { return (rows + row_block - 1) / row_block * row_block * row; }
};
LayoutBytes layout_bytes(const quant::FormatInfo& format, int64_t cols);

struct MemoryPlan {
  int64_t weights = 0, cache = 0, state = 0, scratch = 0, reserve = 0; // bytes
  // What an executor takes that starts where so much is free, or may be taken.
  int64_t total() const { return weights + cache + state + scratch + reserve; }

  ExpertSizes experts; // where routed ones stay in the host's memory. `weights` counts no copies of them
};
// How many blocks share what is to be done, and with it some scratch, depends on the chip.
MemoryPlan plan_memory(const core::Program& program, const core::ExecutorConfig& config, const DeviceLimits& limits,
                       bool experts_on_host = false);

} // namespace ridge::kernels::cuda
